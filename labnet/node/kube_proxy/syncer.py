"""One pass of kube-proxy: objects in, kernel in step.

A pass looks at every Service and EndpointSlice there is and makes node ports, rules and
UDP flows match them; a second pass right after does nothing. What is remembered between
passes is only there to save time (the portals of services that did not change) or belongs
to this process (open sockets): a new process arrives at the same kernel.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from labnet.errors import LabnetError
from labnet.node.kube_proxy.mode import Mode, Programmed, Settings
from labnet.node.kube_proxy.node_ports import NodePort, NodePorts, node_ports
from labnet.plan.conntrack import UDP, ConntrackKernel
from labnet.proxy.conntrack import Frontends, frontends, stale, with_removed
from labnet.proxy.model import Portal
from labnet.proxy.services import Object, service_portals, slice_owner

log = logging.getLogger("kube-proxy")


class Reporter(Protocol):
    """Tells people, as a Kubernetes Event, that something is not as asked for."""

    def __call__(self, reason: str, message: str, service: str) -> None:
        """Report on ``service`` (``namespace/name``), or on the node where that is ""."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A service's portals, and the versions of the objects they were made from."""

    versions: tuple[str, ...]
    portals: tuple[Portal, ...]


class Syncer:
    """Makes the node match the objects. Close it to let go of the node ports.

    ``others`` are the modes this node may have been in before; after the first pass
    each removes what it left.
    """

    def __init__(
        self,
        settings: Settings,
        mode: Mode,
        kernel: ConntrackKernel,
        report: Reporter,
        ports: NodePorts | None = None,
        others: Iterable[Mode] = (),
    ) -> None:
        self._settings = settings
        self._mode = mode
        self._others = list(others)
        self._kernel = kernel
        self._report = report
        self._ports = ports or NodePorts()
        self._kept: dict[str, _Kept] = {}
        self._portals: tuple[Portal, ...] = ()
        self._fronts: Frontends | None = None  # None: not looked at since the start
        self._complained: set[str] = set()

    def close(self) -> None:
        """Let go of the node ports and of what else is the process's; rules stay."""
        self._ports.close()
        self._mode.close()

    def portals(self) -> tuple[Portal, ...]:
        """Return the portals as of the last pass."""
        return self._portals

    def sync(self, services: Iterable[Object], slices: Iterable[Object]) -> Programmed:
        """Make the node match; return what was written. Raises ``OpFailed``."""
        self._keep(services, slices)
        portals = tuple(
            portal for name in sorted(self._kept) for portal in self._kept[name].portals
        )
        self._portals = portals
        ports = node_ports(portals)
        lost = self._ports.acquire(ports)
        done = self._mode.sync(
            {name: _without(kept.portals, lost) for name, kept in self._kept.items()}
        )
        self._remove_others()
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
        return _Kept(versions, service_portals(service, slices, self._settings.node))

    def _remove_others(self) -> None:
        """Remove what other modes left, once; what fails is tried again next time."""
        left, self._others = self._others, []
        for mode in left:
            try:
                done = mode.remove()
            except LabnetError as error:
                log.warning("the %s mode's rules may remain: %s", mode.name, error)
                self._others.append(mode)
                continue
            if done.written:
                log.info("removed what %s mode had left", mode.name)

    def _forget_stale_flows(self, portals: Iterable[Portal]) -> None:
        if not self._mode.translates:
            return
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


def _without(portals: tuple[Portal, ...], lost: dict[NodePort, LabnetError]) -> tuple[Portal, ...]:
    """Return ``portals`` without the node ports that somebody else has."""
    if not lost or not any(NodePort(p.port.protocol, p.port.node_port) in lost for p in portals):
        return portals
    return tuple(
        replace(p, port=replace(p.port, node_port=0))
        if NodePort(p.port.protocol, p.port.node_port) in lost
        else p
        for p in portals
    )


def _version(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('uid', metadata['name'])}@{metadata.get('resourceVersion', '')}"
