"""An in-memory kernel that refuses what Linux refuses.

Shipped beside the real one so that the two can be run through the same tests
(``tests/contract/test_kernel.py``) and cannot drift apart. It knows one namespace with
the devices it is given (``eth0``, up, with an address) and the far ends of its cables
by the descriptor they were laid to.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any, ClassVar

from labnet.errors import LabnetError, OpFailed, Unsupported
from labnet.kernel.cable import PORTS_MAX, full
from labnet.naming import IFNAME_MAX
from labnet.plan.explain import commands
from labnet.plan.ops import (
    AddAddress,
    AddLink,
    AddRoute,
    Attach,
    DeleteAddress,
    DeleteForwarding,
    DeleteLink,
    DeleteNeighbour,
    DeleteRoute,
    Op,
    Plan,
    ReplaceRoute,
    SetForwarding,
    SetLink,
    SetNeighbour,
    SetSysctl,
)
from labnet.plan.state import (
    Address,
    Cable,
    Forwarding,
    Link,
    Neighbour,
    NodeState,
    Route,
    Scope,
    Sysctl,
)

SETTINGS = {
    "net.ipv4.ip_forward": "0",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.bridge.bridge-nf-call-iptables": "1",
}


class _Refused(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(os.strerror(number))
        self.errno = number


class FakeKernel:
    """One namespace in memory; every operation carried out is kept in ``log``."""

    def __init__(self, name: str = "node1", state: NodeState | None = None) -> None:
        state = state or NodeState()
        self.name = name
        self.log: list[Op | Attach] = []
        self.cables: dict[int, Cable] = {}  # by the far end's descriptor
        self._links = {link.name: link for link in state.links}
        self._addresses = set(state.addresses)
        self._routes = {route.dst: route for route in state.routes}
        self._neighbours = {(n.dev, n.ip): n for n in state.neighbours}
        self._forwardings = {(f.dev, f.mac): f for f in state.forwardings}
        self._sysctls = SETTINGS | {s.name: s.value for s in state.sysctls}

    def observe(self, scope: Scope) -> NodeState:
        """Return what is there of what ``scope`` covers."""
        return NodeState(
            links=frozenset(x for x in self._links.values() if x.name in scope.links),
            addresses=frozenset(x for x in self._addresses if x.dev in scope.links),
            routes=frozenset(x for x in self._routes.values() if x.dev in scope.routes),
            neighbours=frozenset(x for x in self._neighbours.values() if x.dev in scope.links),
            forwardings=frozenset(x for x in self._forwardings.values() if x.dev in scope.links),
            sysctls=frozenset(
                Sysctl(name, self._sysctls[name]) for name in scope.sysctls & self._sysctls.keys()
            ),
        )

    def apply(self, op: Op) -> None:
        """Carry out ``op`` in memory, or refuse it as Linux would."""
        try:
            self._ways[type(op)](self, op)
        except _Refused as e:
            raise self._failure(op, e) from e
        self.log.append(op)

    def apply_all(self, plan: Plan) -> None:
        """Carry out all of ``plan``; raise for the first refusal at the end."""
        failures: list[LabnetError] = []
        for op in plan:
            try:
                self.apply(op)
            except LabnetError as e:
                failures.append(e)
        if failures:
            raise failures[0]

    def attach(self, op: Attach, netns: int) -> None:
        """Lay the cable in memory."""
        cable = op.cable
        try:
            if sum(x.master == cable.bridge for x in self._links.values()) >= PORTS_MAX:
                raise full(cable.bridge, f"{self.name}: {commands(op)[0]}")
            if netns in self.cables:
                raise _Refused(errno.EEXIST)
            self._add_link(
                Link(
                    cable.port,
                    "veth",
                    cable.mtu,
                    cable.port_mac,
                    master=cable.bridge,
                    hairpin=cable.hairpin,
                )
            )
        except _Refused as e:
            raise self._failure(op, e) from e
        self.cables[netns] = cable
        self.log.append(op)

    def _failure(self, op: Op | Attach, cause: _Refused) -> LabnetError:
        line = f"{self.name}: {commands(op)[0]}: {cause}"
        if isinstance(op, SetSysctl) and op.sysctl.name.startswith("net.bridge."):
            return Unsupported(line, hint="load the kernel module: sudo modprobe br_netfilter")
        return OpFailed(line)

    def _device(self, name: str) -> Link:
        if name not in self._links:
            raise _Refused(errno.ENODEV)
        return self._links[name]

    def _bridge(self, name: str) -> None:
        if self._device(name).kind != "bridge":
            raise _Refused(errno.EINVAL)

    def _add_link(self, link: Link) -> None:
        if link.name in self._links:
            raise _Refused(errno.EEXIST)
        if not link.name or len(link.name) > IFNAME_MAX:
            raise _Refused(errno.ERANGE)
        if link.master:
            self._bridge(link.master)
        if v := link.vxlan:
            self._device(v.dev)
            taken = {(x.vxlan.vni, x.vxlan.port) for x in self._links.values() if x.vxlan}
            if (v.vni, v.port) in taken:
                raise _Refused(errno.EEXIST)
        self._links[link.name] = replace(link, mac=link.mac or _made_up_mac(link.name))

    def _set_link(self, op: SetLink) -> None:
        old = self._device(op.link.name)
        if op.link.master:
            self._bridge(op.link.master)
        self._links[old.name] = replace(op.link, mac=op.link.mac or old.mac, vxlan=old.vxlan)
        if not op.link.up:
            self._flush_routes(old.name)

    def _flush_routes(self, dev: str) -> None:
        """A device that goes down or away takes its routes along."""
        self._routes = {dst: r for dst, r in self._routes.items() if r.dev != dev}

    def _delete_link(self, name: str) -> None:
        self._device(name)
        del self._links[name]
        self._flush_routes(name)
        self._addresses = {a for a in self._addresses if a.dev != name}
        self._neighbours = {k: n for k, n in self._neighbours.items() if n.dev != name}
        self._forwardings = {k: f for k, f in self._forwardings.items() if f.dev != name}
        for port in [x for x in self._links.values() if x.master == name]:
            self._links[port.name] = replace(port, master="", hairpin=False)

    def _add_address(self, address: Address) -> None:
        self._device(address.dev)
        if address in self._addresses:
            raise _Refused(errno.EEXIST)
        self._addresses.add(address)

    def _delete_address(self, address: Address) -> None:
        self._device(address.dev)
        if address not in self._addresses:
            raise _Refused(errno.EADDRNOTAVAIL)
        self._addresses.remove(address)
        self._routes = {
            dst: r for dst, r in self._routes.items() if r.onlink or self._reaches(r.via, r.dev)
        }

    def _reaches(self, hop: IPv4Address, dev: str) -> bool:
        return any(a.dev == dev and hop in a.interface.network for a in self._addresses)

    def _set_route(self, route: Route, exclusive: bool) -> None:
        if not self._device(route.dev).up:
            raise _Refused(errno.ENETDOWN)
        if not route.onlink and not self._reaches(route.via, route.dev):
            raise _Refused(errno.ENETUNREACH)
        if exclusive and route.dst in self._routes:
            raise _Refused(errno.EEXIST)
        self._routes[route.dst] = route

    def _delete_route(self, route: Route) -> None:
        self._device(route.dev)
        there = self._routes.get(route.dst)
        if there is None or (there.via, there.dev) != (route.via, route.dev):
            raise _Refused(errno.ESRCH)
        del self._routes[route.dst]

    def _set_neighbour(self, n: Neighbour) -> None:
        self._device(n.dev)
        self._neighbours[(n.dev, n.ip)] = n

    def _delete_neighbour(self, n: Neighbour) -> None:
        self._device(n.dev)
        if (n.dev, n.ip) not in self._neighbours:
            raise _Refused(errno.ENOENT)
        del self._neighbours[(n.dev, n.ip)]

    def _tunnel(self, name: str) -> None:
        if self._device(name).kind != "vxlan":
            raise _Refused(errno.EOPNOTSUPP)

    def _set_forwarding(self, f: Forwarding) -> None:
        self._tunnel(f.dev)
        self._forwardings[(f.dev, f.mac)] = f

    def _delete_forwarding(self, f: Forwarding) -> None:
        self._tunnel(f.dev)
        if self._forwardings.get((f.dev, f.mac)) != f:
            raise _Refused(errno.ENOENT)
        del self._forwardings[(f.dev, f.mac)]

    def _set_sysctl(self, sysctl: Sysctl) -> None:
        if sysctl.name not in self._sysctls:
            raise _Refused(errno.ENOENT)
        self._sysctls[sysctl.name] = sysctl.value

    _ways: ClassVar[dict[type, Callable[[FakeKernel, Any], None]]] = {
        AddLink: lambda self, op: self._add_link(op.link),
        SetLink: lambda self, op: self._set_link(op),
        DeleteLink: lambda self, op: self._delete_link(op.name),
        AddAddress: lambda self, op: self._add_address(op.address),
        DeleteAddress: lambda self, op: self._delete_address(op.address),
        AddRoute: lambda self, op: self._set_route(op.route, exclusive=True),
        ReplaceRoute: lambda self, op: self._set_route(op.route, exclusive=False),
        DeleteRoute: lambda self, op: self._delete_route(op.route),
        SetNeighbour: lambda self, op: self._set_neighbour(op.neighbour),
        DeleteNeighbour: lambda self, op: self._delete_neighbour(op.neighbour),
        SetForwarding: lambda self, op: self._set_forwarding(op.forwarding),
        DeleteForwarding: lambda self, op: self._delete_forwarding(op.forwarding),
        SetSysctl: lambda self, op: self._set_sysctl(op.sysctl),
    }


def _made_up_mac(name: str) -> str:
    """The kernel draws one; here it follows from the name, locally administered."""
    return "02:" + name.encode().ljust(5, b"\0")[:5].hex(":")
