"""Show an operation as the command a person would have typed.

The kernel is told by netlink, in binary; this is the same request in the words of
``ip``, ``bridge`` and ``sysctl``. It serves error messages, ``--dry-run`` views, logs
and lessons. Most operations are one command; laying a cable is several, in the order
in which they are sent.
"""

from __future__ import annotations

from typing import assert_never

from labnet.plan.diff import changes
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
    ReplaceRoute,
    SetForwarding,
    SetLink,
    SetNeighbour,
    SetSysctl,
)
from labnet.plan.state import ROUTE_PROTOCOL, Address, Cable, Forwarding, Link, Neighbour, Route

PEER_NETNS = "POD"  # stands for the other namespace's name in the commands of a cable


def shell(op: Op | Attach) -> str:
    """Return what ``op`` does as one line of shell."""
    return " && ".join(commands(op))


def commands(op: Op | Attach) -> tuple[str, ...]:
    """Return the commands that do what ``op`` does, in order."""
    match op:
        case AddLink(link=link):
            return (f"ip link add {_link(link)}",)
        case SetLink(old=old, link=link):
            return _set_link(old, link)
        case DeleteLink(name=name):
            return (f"ip link del {name}",)
        case SetSysctl(sysctl=sysctl):
            return (f"sysctl -w {sysctl.name}={sysctl.value}",)
        case Attach(cable=cable):
            return _cable(cable)
        case _:
            return (_entry(op),)


def _entry(
    op: AddAddress
    | DeleteAddress
    | AddRoute
    | ReplaceRoute
    | DeleteRoute
    | SetNeighbour
    | DeleteNeighbour
    | SetForwarding
    | DeleteForwarding,
) -> str:
    match op:
        case AddAddress(address=a):
            return f"ip addr add {_address(a)}"
        case DeleteAddress(address=a):
            return f"ip addr del {a.interface} dev {a.dev}"
        case AddRoute(route=r):
            return f"ip route add {_route(r)}"
        case ReplaceRoute(route=r):
            return f"ip route replace {_route(r)}"
        case DeleteRoute(route=r):
            return f"ip route del {_route(r)}"
        case SetNeighbour(neighbour=n):
            return f"ip neigh replace {_neighbour(n)} nud permanent"
        case DeleteNeighbour(neighbour=n):
            return f"ip neigh del {_neighbour(n)}"
        case SetForwarding(forwarding=f):
            return f"bridge fdb replace {_forwarding(f)}"
        case DeleteForwarding(forwarding=f):
            return f"bridge fdb del {_forwarding(f)}"
        case _:
            assert_never(op)


def _link(link: Link) -> str:
    words = [link.name]
    words += ["address", link.mac] if link.mac else []
    words += ["mtu", str(link.mtu), "addrgenmode", "none"]
    words += ["master", link.master] if link.master else []
    words += ["up"] if link.up else []
    words += ["type", link.kind]
    if v := link.vxlan:
        words += ["id", str(v.vni), "dev", v.dev, "local", str(v.local), "dstport", str(v.port)]
        words += ["learning" if v.learning else "nolearning"]
    return " ".join(words)


def _set_link(old: Link, new: Link) -> tuple[str, ...]:
    changed = changes(old, new)
    words = ["ip link set dev", new.name]
    words += ["address", new.mac] if "mac" in changed else []
    words += ["mtu", str(new.mtu)] if "mtu" in changed else []
    if "master" in changed:
        words += ["master", new.master] if new.master else ["nomaster"]
    if "up" in changed:
        words += ["up" if new.up else "down"]
    hairpin = f"bridge link set dev {new.name} hairpin {'on' if new.hairpin else 'off'}"
    return (
        *((" ".join(words),) if changed != ("hairpin",) else ()),
        *((hairpin,) if "hairpin" in changed else ()),
    )


def _address(a: Address) -> str:
    broadcast = " brd +" if a.interface.network.prefixlen < 31 else ""
    return f"{a.interface}{broadcast} dev {a.dev}"


def _route(r: Route) -> str:
    onlink = " onlink" if r.onlink else ""
    return f"{r.dst} via {r.via} dev {r.dev} proto {ROUTE_PROTOCOL}{onlink}"


def _neighbour(n: Neighbour) -> str:
    return f"{n.ip} lladdr {n.mac} dev {n.dev}"


def _forwarding(f: Forwarding) -> str:
    return f"{f.mac} dev {f.dev} dst {f.dst} self permanent"


def _cable(c: Cable) -> tuple[str, ...]:
    """One line per netlink message, as ``labnet.kernel.cable`` sends them."""
    far = f"peer name {c.interface} address {c.mac} mtu {c.mtu} netns {PEER_NETNS}"
    near = f"{c.port} address {c.port_mac} mtu {c.mtu} addrgenmode none master {c.bridge} up"
    at = f"ip -n {PEER_NETNS}"
    return (
        f"ip link add {near} type veth {far}",
        f"bridge link set dev {c.port} hairpin {'on' if c.hairpin else 'off'}",
        f"{at} link set dev lo up",
        f"{at} link set dev {c.interface} addrgenmode none up",
        f"{at} addr add {_address(Address(c.interface, c.address))}",
        f"{at} route add default via {c.gateway} dev {c.interface}",
    )
