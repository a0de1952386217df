"""One pass of kube-proxy: objects in, kernel in step.

A pass looks at every Service and EndpointSlice there is and makes node ports, rules and
UDP flows match them; a second pass right after does nothing. What is remembered between
passes is only there to save time (the rules of services that did not change) or belongs
to this process (open sockets): a new process arrives at the same kernel.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Protocol

from labnet.errors import LabnetError
from labnet.node.kube_proxy.node_ports import NodePort, NodePorts, node_ports
from labnet.node.kube_proxy.program import Programmed, program
from labnet.plan.conntrack import UDP, ConntrackKernel
from labnet.plan.netfilter import NetfilterKernel
from labnet.proxy.conntrack import Frontends, frontends, stale, with_removed
from labnet.proxy.iptables.planner import STYLES, Style, wanted
from labnet.proxy.iptables.rules import Fragment, RuleConfig
from labnet.proxy.model import Portal
from labnet.proxy.services import Object, service_portals, slice_owner

log = logging.getLogger("kube-proxy")


class ProxyKernel(NetfilterKernel, ConntrackKernel, Protocol):
    """What kube-proxy needs of its node."""


class Reporter(Protocol):
    """Tells people, as a Kubernetes Event, that something is not as asked for."""

    def __call__(self, reason: str, message: str, service: str) -> None:
        """Report on ``service`` (``namespace/name``), or on the node where that is ""."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A node's kube-proxy."""

    node: str
    address: IPv4Address
    pod_cidr: IPv4Network
    style: Style = "current"

    @property
    def rules(self) -> RuleConfig:
        """What its rules depend on."""
        return RuleConfig(self.pod_cidr, self.address)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A service's rules, and the versions of the objects they were made from."""

    versions: tuple[str, ...]
    portals: tuple[Portal, ...]
    fragments: tuple[Fragment, ...]


class Syncer:
    """Makes the kernel match the objects. Close it to let go of the node ports."""

    def __init__(
        self,
        settings: Settings,
        kernel: ProxyKernel,
        report: Reporter,
        ports: NodePorts | None = None,
    ) -> None:
        self._settings = settings
        self._kernel = kernel
        self._report = report
        self._ports = ports or NodePorts()
        self._kept: dict[str, _Kept] = {}
        self._portals: tuple[Portal, ...] = ()
        self._fronts: Frontends | None = None  # None: not looked at since the start
        self._complained: set[str] = set()

    def close(self) -> None:
        """Let go of the node ports; rules stay."""
        self._ports.close()

    def portals(self) -> tuple[Portal, ...]:
        """Return the portals as of the last pass."""
        return self._portals

    def sync(self, services: Iterable[Object], slices: Iterable[Object]) -> Programmed:
        """Make the node match; return what was written. Raises ``OpFailed``."""
        self._keep(services, slices)
        kept = [self._kept[name] for name in sorted(self._kept)]
        portals = tuple(portal for k in kept for portal in k.portals)
        self._portals = portals
        ports = node_ports(portals)
        lost = self._ports.acquire(ports)
        fragments = [f for k in kept for f in self._fragments(k, lost)]
        done = program(wanted(self._settings.style, fragments), self._kernel)
        self._ports.release(ports)
        self._forget_stale_flows(portals)
        self._complain(done, ports, lost)
        return done

    def _keep(self, services: Iterable[Object], slices: Iterable[Object]) -> None:
        owned: dict[str, list[Object]] = {}
        for endpoint_slice in slices:
            owned.setdefault(slice_owner(endpoint_slice), []).append(endpoint_slice)
        kept: dict[str, _Kept] = {}
        for service in services:
            metadata = service["metadata"]
            name = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
            parts = sorted(owned.get(name, ()), key=lambda s: str(s["metadata"]["name"]))
            versions = tuple(_version(o) for o in (service, *parts))
            known = self._kept.get(name)
            current = known is not None and known.versions == versions
            kept[name] = known if known and current else self._plan(service, parts, versions)
        self._kept = kept

    def _plan(self, service: Object, slices: Sequence[Object], versions: tuple[str, ...]) -> _Kept:
        portals = service_portals(service, slices, self._settings.node)
        fragment = STYLES[self._settings.style].fragment
        rules = self._settings.rules
        return _Kept(versions, portals, tuple(fragment(p, rules) for p in portals))

    def _fragments(self, kept: _Kept, lost: dict[NodePort, LabnetError]) -> Iterable[Fragment]:
        """Return a service's rules, without those for node ports that somebody else has."""
        if not lost:
            return kept.fragments
        fragment = STYLES[self._settings.style].fragment
        return [
            fragment(replace(p, port=replace(p.port, node_port=0)), self._settings.rules)
            if NodePort(p.port.protocol, p.port.node_port) in lost
            else f
            for p, f in zip(kept.portals, kept.fragments, strict=True)
        ]

    def _forget_stale_flows(self, portals: Iterable[Portal]) -> None:
        fronts = frontends(portals)
        before, self._fronts = self._fronts, fronts
        if before == fronts or not (fronts.addresses or (before and before.addresses)):
            return
        try:
            self._forget(with_removed(fronts, before or Frontends()))
        except LabnetError as error:  # the rules are right all the same
            log.warning("stale UDP flows may remain: %s", error)
            self._fronts = before

    def _forget(self, fronts: Frontends) -> None:
        flows = stale(self._kernel.connections(UDP), fronts, [self._settings.address])
        if flows:
            self._kernel.forget(flows)
            log.info("forgot %d UDP flows to endpoints that are gone", len(flows))

    def _complain(
        self, done: Programmed, ports: dict[NodePort, str], lost: dict[NodePort, LabnetError]
    ) -> None:
        """Report each trouble once, as long as it lasts."""
        troubles = {
            f"FailedToSyncRules {r}": ("FailedToSyncRules", str(r), "") for r in done.refused
        }
        for port, error in lost.items():
            text = f"cannot open {error}; skipping this node port"
            troubles[f"{port}"] = ("PortUnavailable", text, ports[port])
        for key in sorted(troubles.keys() - self._complained):
            reason, message, service = troubles[key]
            log.warning("%s %s: %s", reason, service, message)
            self._report(reason, message, service)
        self._complained = set(troubles)


def _version(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('uid', metadata['name'])}@{metadata.get('resourceVersion', '')}"
