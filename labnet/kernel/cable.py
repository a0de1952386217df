"""Laying a cable: a veth pair across two namespaces, the hot path of every pod.

The pair is born with its far end already in the other namespace, under its final
name. Three conversations do all of it: one here (make, set the port up), two over a
socket of the other namespace (what number did ``eth0`` get; address, route, up).

Bringing the far end up in the message that makes it fails with ENOTCONN after 17 ms,
so that comes separately; taking explicit interface numbers would save one
conversation but collides where modules put fallback tunnels into every namespace.
"""

from __future__ import annotations

from contextlib import suppress

from labnet.errors import Exhausted, LabnetError, OpFailed
from labnet.kernel import decode
from labnet.kernel import encode as e
from labnet.kernel import netlink as nl
from labnet.kernel.encode import IFINFO
from labnet.kernel.netlink import Message, Netlink, Refusal, Refused, attribute, nested, text, u32
from labnet.plan.explain import commands
from labnet.plan.ops import Attach, DeleteLink
from labnet.plan.state import Address, Cable

VETH_INFO_PEER = 1
BRIDGE_IS_FULL = 54  # EXFULL: 1,023 ports
PORTS_MAX = 1023

Step = tuple[int, Message]  # position in explain.commands, request


def near(cable: Cable, bridge: int, netns: int) -> list[Step]:
    """Return the requests for this namespace; ``bridge`` is the bridge's number."""
    steps: list[Step] = [(0, _pair(cable, bridge, netns))]
    steps += [(0, m) for m in e.no_ipv6_address(cable.port, cable.mtu)]
    if cable.hairpin:
        steps.append((1, e.port_setting(cable.port, attribute(e.BRPORT_MODE, b"\1"))))
    return [*steps, (0, e.set_up(cable.port))]


def far(cable: Cable, interface: int) -> list[Step]:
    """Return the requests for the other namespace; ``interface`` is its eth0's number."""
    address = Address(cable.interface, cable.address)
    return [
        (2, e.set_up("lo")),
        *((3, m) for m in e.no_ipv6_address(cable.interface, cable.mtu)),
        (3, e.set_up(cable.interface)),
        (4, e.address_message(nl.RTM_NEWADDR, address, interface, nl.CREATE | nl.EXCL)),
        (5, e.default_route(cable.gateway, interface)),
    ]


def lay(op: Attach, netns: int, here: Netlink, there: Netlink, bridge: int, node: str) -> None:
    """Lay ``op.cable``; take it up again where a step is refused.

    ``here`` and ``there`` are sockets of the two namespaces. Raises ``OpFailed``,
    ``Exhausted``.
    """
    _send(here, near(op.cable, bridge, netns), op, node)
    try:
        _send(there, far(op.cable, _interface(there, op, node)), op, node)
    except (LabnetError, OSError):
        _take_up(here, op.cable.port)
        raise


def _interface(there: Netlink, op: Attach, node: str) -> int:
    try:
        found = there.get(decode.link_query(op.cable.interface))
    except Refused as error:
        raise failure(op, 3, error.refusal, node) from error
    return decode.link_index(found) if found else 0


def _take_up(here: Netlink, port: str) -> None:
    with suppress(Refused):  # gone already, with the other namespace
        body = here.get(decode.link_query(port))
        if body:
            index = decode.link_index(body)
            here.batch(e.messages(DeleteLink(port, "laying it failed"), lambda _: index))


def _pair(cable: Cable, bridge: int, netns: int) -> Message:
    peer = IFINFO.pack(0, 0, 0, 0, 0) + b"".join(
        (
            text(e.IFLA_IFNAME, cable.interface),
            attribute(e.IFLA_ADDRESS, e.mac(cable.mac)),
            u32(e.IFLA_MTU, cable.mtu),
            u32(e.IFLA_NET_NS_FD, netns),
        )
    )
    data = nested(e.INFO_DATA, attribute(VETH_INFO_PEER, peer))
    body = IFINFO.pack(0, 0, 0, 0, 0) + b"".join(
        (
            text(e.IFLA_IFNAME, cable.port),
            attribute(e.IFLA_ADDRESS, e.mac(cable.port_mac)),
            u32(e.IFLA_MTU, cable.mtu),
            u32(e.IFLA_MASTER, bridge),
            nested(e.IFLA_LINKINFO, text(e.INFO_KIND, "veth"), data),
        )
    )
    return Message(nl.RTM_NEWLINK, body, nl.CREATE | nl.EXCL)


def _send(socket: Netlink, steps: list[Step], op: Attach, node: str) -> None:
    refused = socket.batch([message for _, message in steps])
    if refused:
        position, refusal = min(refused.items())
        raise failure(op, steps[position][0], refusal, node)


def failure(op: Attach, command: int, refusal: Refusal, node: str) -> LabnetError:
    """Return the error for the ``command``-th command of ``op``."""
    line = f"{node}: {commands(op)[command]}"
    if refusal.errno == BRIDGE_IS_FULL:
        return full(op.cable.bridge, line)
    return OpFailed(f"{line}: {refusal}")


def full(bridge: str, line: str) -> Exhausted:
    """Return the error for one port too many, asked for by the command in ``line``."""
    return Exhausted(
        f"{line}: the bridge {bridge} has all {PORTS_MAX} ports it can have",
        hint="spread the pods over more nodes",
    )
