"""The userspace mode: kube-proxy itself stands between clients and endpoints.

On each pass every service port gets a proxy port of its own, kept as long as the service
lives: first the ports are open, then rules lead to them, then ports nobody is led to are
shut. New endpoints change no rule; they are only told to the service's balancer.

Proxy ports die with the process, and with them every connection through them. The rules
stay and lead nowhere (connection refused) until the next kube-proxy has written new ones.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from labnet.clock import Clock
from labnet.errors import LabnetError, Unsupported
from labnet.node.kube_proxy.mode import Programmed, Services, Settings
from labnet.node.kube_proxy.program import program
from labnet.plan.conntrack import UDP, ConntrackKernel
from labnet.plan.netfilter import Hook, NetfilterKernel, NetfilterState, Wanted
from labnet.plan.relay import Address, Relays, Transport
from labnet.proxy.model import Endpoint, Portal, ServicePort
from labnet.proxy.userspace.balancer import Balancer
from labnet.proxy.userspace.flows import Entrances, entrances, stale, with_removed
from labnet.proxy.userspace.rules import CHAINS, Style, redirections, wanted

log = logging.getLogger("kube-proxy")

_Key = tuple[str, str, Transport]  # namespace/name, port name, transport


class UserspaceMode:
    """A ``Mode``: relays services, and keeps the rules that lead to the relay in step."""

    name = "userspace"
    translates = False  # to itself, and it looks after those flows

    def __init__(
        self,
        settings: Settings,
        netfilter: NetfilterKernel,
        conntrack: ConntrackKernel,
        relays: Relays,
        clock: Clock,
        style: Style = "current",
    ) -> None:
        self._settings = settings
        self._netfilter = netfilter
        self._conntrack = conntrack
        self._relays = relays
        self._clock = clock
        self._style: Style = style
        self._open: dict[_Key, _Proxy] = {}
        self._entrances: Entrances | None = None  # None: not looked at since the start

    def sync(self, services: Services) -> Programmed:
        """Make ports and rules match; return what was written. Raises ``OpFailed``."""
        portals = [p for name in sorted(services) for p in services[name]]
        refused: list[LabnetError] = []
        relayed = list(self._relayed(portals, refused))
        done = program(wanted(self._style, self._lines(relayed)), self._netfilter)
        self._shut_others(relayed)
        self._forget_stale_flows((p.port, proxy.number) for p, proxy in relayed)
        return Programmed(done.written, (*refused, *done.refused))

    def remove(self) -> Programmed:
        """Remove the rules that lead to proxy ports."""
        empty = Wanted(NetfilterState(), owned=tuple(sorted(CHAINS)))
        return program(empty, self._netfilter)

    def close(self) -> None:
        """Shut the proxy ports; every connection through them breaks."""
        self._open.clear()
        self._relays.close()

    def _relayed(
        self, portals: Iterable[Portal], refused: list[LabnetError]
    ) -> Iterator[tuple[Portal, _Proxy]]:
        """Yield each portal with its proxy, opened if need be; note those without."""
        for portal in portals:
            try:
                proxy = self._proxy(portal.port)
            except LabnetError as error:
                refused.append(error)
                continue
            proxy.chooser.update(portal)
            yield portal, proxy

    def _proxy(self, port: ServicePort) -> _Proxy:
        key = _key(port)
        proxy = self._open.get(key)
        if proxy is None:
            chooser = _Chooser(self._clock)
            proxy = _Proxy(self._relays.open(key[2], chooser), chooser)
            self._open[key] = proxy
            log.info("proxying %s %s on port %d", port.key, port.port_name, proxy.number)
        return proxy

    def _lines(self, relayed: Iterable[tuple[Portal, _Proxy]]) -> Iterator[Hook]:
        for portal, proxy in relayed:
            yield from redirections(portal, proxy.number, self._settings.address, self._style)

    def _shut_others(self, relayed: Iterable[tuple[Portal, _Proxy]]) -> None:
        kept = {_key(portal.port) for portal, _ in relayed}
        for key in self._open.keys() - kept:
            self._relays.shut(key[2], self._open.pop(key).number)

    def _forget_stale_flows(self, relayed: Iterable[tuple[ServicePort, int]]) -> None:
        now = entrances(relayed)
        before, self._entrances = self._entrances, now
        if before == now or not (now.addresses or (before and before.addresses)):
            return
        known = with_removed(now, before or Entrances())
        try:
            flows = stale(self._conntrack.connections(UDP), known, self._settings.address)
            if flows:
                self._conntrack.forget(flows)
                log.info("forgot %d UDP flows to proxy ports that are gone", len(flows))
        except LabnetError as error:  # the rules are right all the same
            log.warning("stale UDP flows may remain: %s", error)
            self._entrances = before


@dataclass(frozen=True, slots=True)
class _Proxy:
    """A service port's proxy port, and who chooses for it."""

    number: int
    chooser: _Chooser


class _Chooser:
    """A ``Chooser``: a balancer that the relay's thread asks and a pass updates."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._balancer = Balancer()
        self._lock = threading.Lock()

    def update(self, portal: Portal) -> None:
        with self._lock:
            self._balancer.update(portal.cluster, portal.port.affinity_seconds)

    def choose(self, client: IPv4Address, failed: Address | None = None) -> Address | None:
        """Return the endpoint for ``client``; see :class:`Balancer`."""
        tried = Endpoint(*failed) if failed else None
        with self._lock:
            chosen = self._balancer.choose(client, self._clock.monotonic(), tried)
        return (chosen.address, chosen.port) if chosen else None

    def serves(self, server: Address) -> bool:
        """Return whether ``server`` is an endpoint now."""
        with self._lock:
            return self._balancer.serves(Endpoint(*server))


def _key(port: ServicePort) -> _Key:
    """Raises ``Unsupported`` where the protocol cannot be relayed."""
    match port.protocol:
        case "TCP" | "UDP" as transport:
            return (port.key, port.port_name, transport)
        case other:
            raise Unsupported(
                f"{port.key}: {other} is not relayed in userspace mode",
                hint="iptables mode translates it",
            )
