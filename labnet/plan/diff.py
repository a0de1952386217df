"""Turn 'desired' and 'observed' into the operations between them.

The order is the kernel's: what hangs on something else goes before it and comes after
it. Deletions first (a second route to the same network is refused), then links,
addresses, neighbours and forwarding entries, and routes last: a route sends packets
the moment it is there, so everything it relies on must be there before.
"""

from __future__ import annotations

from dataclasses import replace

from labnet.plan.ops import (
    AddAddress,
    AddLink,
    AddRoute,
    DeleteAddress,
    DeleteForwarding,
    DeleteLink,
    DeleteNeighbour,
    DeleteRoute,
    Plan,
    ReplaceRoute,
    SetForwarding,
    SetLink,
    SetNeighbour,
    SetSysctl,
)
from labnet.plan.state import Link, NodeState, Vxlan

UNWANTED = "nothing wants it any more"


def diff(desired: NodeState, observed: NodeState) -> Plan:
    """Return the operations that make ``observed`` equal ``desired``, in order.

    Both must cover the same :class:`~labnet.plan.state.Scope`. Equal states give an
    empty plan, so running a plan twice changes nothing.
    """
    doomed = _doomed(desired, observed)
    left = without(observed, {link.name for link in doomed})
    return (
        *_sysctls(desired, left),
        *_removals(desired, left),
        *(DeleteLink(link.name, _why_deleted(link, desired)) for link in doomed),
        *_links(desired, left),
        *_additions(desired, left),
        *_routes(desired, left),
    )


def without(state: NodeState, devices: set[str]) -> NodeState:
    """Return ``state`` as it is once ``devices`` are gone: all on them goes too."""
    return replace(
        state,
        links=frozenset(x for x in state.links if x.name not in devices),
        addresses=frozenset(x for x in state.addresses if x.dev not in devices),
        routes=frozenset(x for x in state.routes if x.dev not in devices),
        neighbours=frozenset(x for x in state.neighbours if x.dev not in devices),
        forwardings=frozenset(x for x in state.forwardings if x.dev not in devices),
    )


def _doomed(desired: NodeState, observed: NodeState) -> list[Link]:
    """Links nobody wants, and links whose nature would have to change."""
    return sorted(
        (old for old in observed.links if not _can_become(old, desired.link(old.name))),
        key=lambda link: link.name,
    )


def _can_become(old: Link, new: Link | None) -> bool:
    return new is not None and (old.kind, old.vxlan) == (new.kind, new.vxlan)


def _why_deleted(old: Link, desired: NodeState) -> str:
    new = desired.link(old.name)
    if new is None:
        return UNWANTED
    if old.kind != new.kind:
        return f"it is a {old.kind} and must be a {new.kind}"
    return f"it is {_tunnel(old.vxlan)} and must be {_tunnel(new.vxlan)}"


def _tunnel(vxlan: Vxlan | None) -> str:
    return f"VNI {vxlan.vni} from {vxlan.local} port {vxlan.port}" if vxlan else "no tunnel"


def _links(desired: NodeState, observed: NodeState) -> Plan:
    """Bridges before the ports that name them as master."""
    ops: list[AddLink | SetLink] = []
    for link in sorted(desired.links, key=lambda x: (bool(x.master), x.name)):
        old = observed.link(link.name)
        if old is None:
            ops.append(AddLink(link, "it is missing"))
        elif changed := changes(old, link):
            ops.append(SetLink(old, link, f"{', '.join(changed)} differ from what is wanted"))
    return tuple(ops)


def changes(old: Link, new: Link) -> tuple[str, ...]:
    """Return the names of the fields that ``new`` sets differently from ``old``."""
    fields = ["mtu", "up", "master", "hairpin"]
    if new.mac:  # empty: any will do
        fields.append("mac")
    return tuple(name for name in fields if getattr(old, name) != getattr(new, name))


def _sysctls(desired: NodeState, observed: NodeState) -> Plan:
    return tuple(
        SetSysctl(s, "the pod network depends on it")
        for s in sorted(desired.sysctls - observed.sysctls)
    )


def _removals(desired: NodeState, observed: NodeState) -> Plan:
    """Take away what is not wanted, except what an addition overwrites in place."""
    targets = {route.dst for route in desired.routes}
    hops = {(n.dev, n.ip) for n in desired.neighbours}
    macs = {(f.dev, f.mac) for f in desired.forwardings}
    routes = sorted(r for r in observed.routes - desired.routes if r.dst not in targets)
    forwardings = sorted(observed.forwardings - desired.forwardings)
    neighbours = sorted(observed.neighbours - desired.neighbours)
    return (
        *(DeleteRoute(r, UNWANTED) for r in routes),
        *(DeleteForwarding(f, UNWANTED) for f in forwardings if (f.dev, f.mac) not in macs),
        *(DeleteNeighbour(n, UNWANTED) for n in neighbours if (n.dev, n.ip) not in hops),
        *(DeleteAddress(a, UNWANTED) for a in sorted(observed.addresses - desired.addresses)),
    )


def _additions(desired: NodeState, observed: NodeState) -> Plan:
    return (
        *(
            AddAddress(a, f"{a.dev} has to answer for it")
            for a in sorted(desired.addresses - observed.addresses)
        ),
        *(
            SetNeighbour(n, f"next hop {n.ip} is behind {n.mac}")
            for n in sorted(desired.neighbours - observed.neighbours)
        ),
        *(
            SetForwarding(f, f"{f.mac} lives on host {f.dst}")
            for f in sorted(desired.forwardings - observed.forwardings)
        ),
    )


def _routes(desired: NodeState, observed: NodeState) -> Plan:
    there = {route.dst: route for route in observed.routes}
    return tuple(
        ReplaceRoute(there[r.dst], r, f"{r.dst} moved to {r.via}")
        if r.dst in there
        else AddRoute(r, f"{r.dst} is reached through {r.via}")
        for r in sorted(desired.routes - observed.routes)
    )
