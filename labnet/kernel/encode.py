"""Operations as rtnetlink messages.

:func:`messages` gives one message per command that :func:`labnet.plan.explain.commands`
prints, or more where the kernel wants two steps for what ``ip`` takes in one: IPv6
address generation can only be set on a link that exists and must be off before it
comes up, else every port of a bridge costs multicast traffic at each change.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path

from labnet.kernel import netlink as nl
from labnet.kernel.netlink import Message, attribute, nested, text, u32
from labnet.plan.ops import (
    AddAddress,
    AddLink,
    AddRoute,
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
)
from labnet.plan.state import (
    ROUTE_PROTOCOL,
    Address,
    Forwarding,
    Link,
    Neighbour,
    Route,
    Vxlan,
)

IFINFO = struct.Struct("=BxHiII")
IFADDR = struct.Struct("=BBBBi")
RTMSG = struct.Struct("=BBBBBBBBI")
NDMSG = struct.Struct("=BxxxiHBB")

AF_INET, AF_BRIDGE, AF_INET6 = 2, 7, 10
IFF_UP = 1
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_MASTER = 1, 3, 4, 10
IFLA_LINKINFO, IFLA_AF_SPEC, IFLA_NET_NS_FD, IFLA_EXT_MASK = 18, 26, 28, 29
INFO_KIND, INFO_DATA, INFO_SLAVE_KIND, INFO_SLAVE_DATA = 1, 2, 4, 5
BRPORT_MODE = 4
INET6_ADDR_GEN_MODE, ADDR_GEN_NONE = 8, 1
VXLAN_ID, VXLAN_LINK, VXLAN_LOCAL, VXLAN_LEARNING, VXLAN_PORT = 1, 3, 4, 7, 15
IFA_ADDRESS, IFA_LOCAL, IFA_BROADCAST = 1, 2, 4
RTA_DST, RTA_OIF, RTA_GATEWAY = 1, 4, 5
TABLE_MAIN, PROTOCOL_BOOT, UNICAST, ONLINK = 254, 3, 1, 4
NDA_DST, NDA_LLADDR, NDA_IFINDEX = 1, 2, 8
NUD_PERMANENT, NTF_SELF = 0x80, 0x02

Index = Callable[[str], int]  # device name → its number in this namespace


@cache
def has_ipv6() -> bool:
    """Return whether this kernel speaks IPv6; asked late, once /proc is this lab's own."""
    return Path("/proc/net/if_inet6").exists()


def mac(value: str) -> bytes:
    """Return the six bytes of ``02:00:…``."""
    return bytes.fromhex(value.replace(":", ""))


def messages(op: Op, index: Index) -> tuple[Message, ...]:
    """Return the requests that carry out ``op``.

    ``index`` finds devices that exist already. Not for ``SetSysctl``, which is a file.
    """
    match op:
        case AddLink(link=link):
            return add_link(link, index)
        case SetLink(old=old, link=link):
            return _set_link(old, link, index)
        case DeleteLink(name=name):
            return (Message(nl.RTM_DELLINK, IFINFO.pack(0, 0, index(name), 0, 0)),)
        case AddAddress(address=a):
            return (_address(nl.RTM_NEWADDR, a, index, nl.CREATE | nl.EXCL),)
        case DeleteAddress(address=a):
            return (_address(nl.RTM_DELADDR, a, index),)
        case AddRoute(route=r):
            return (_route(nl.RTM_NEWROUTE, r, index, nl.CREATE | nl.EXCL),)
        case ReplaceRoute(route=r):
            return (_route(nl.RTM_NEWROUTE, r, index, nl.CREATE | nl.REPLACE),)
        case DeleteRoute(route=r):
            return (_route(nl.RTM_DELROUTE, r, index),)
        case _:
            return (_entry(op, index),)


def _entry(op: Op, index: Index) -> Message:
    match op:
        case SetNeighbour(neighbour=n):
            return _neighbour(nl.RTM_NEWNEIGH, n, index, nl.CREATE | nl.REPLACE)
        case DeleteNeighbour(neighbour=n):
            return _neighbour(nl.RTM_DELNEIGH, n, index)
        case SetForwarding(forwarding=f):
            return _forwarding(nl.RTM_NEWNEIGH, f, index, nl.CREATE | nl.REPLACE)
        case DeleteForwarding(forwarding=f):
            return _forwarding(nl.RTM_DELNEIGH, f, index)
        case _:
            raise TypeError(f"no netlink message does {type(op).__name__}")


def add_link(link: Link, index: Index) -> tuple[Message, ...]:
    """Return the requests that make ``link`` and bring it up."""
    info = [text(INFO_KIND, link.kind)]
    if link.vxlan:
        info.append(nested(INFO_DATA, *_vxlan(link.vxlan, index)))
    create = Message(
        nl.RTM_NEWLINK,
        IFINFO.pack(0, 0, 0, 0, 0)
        + text(IFLA_IFNAME, link.name)
        + u32(IFLA_MTU, link.mtu)
        + (attribute(IFLA_ADDRESS, mac(link.mac)) if link.mac else b"")
        + (u32(IFLA_MASTER, index(link.master)) if link.master else b"")
        + nested(IFLA_LINKINFO, *info),
        nl.CREATE | nl.EXCL,
    )
    hairpin = (port_setting(link.name, _hairpin(True)),) if link.hairpin else ()
    return (create, *no_ipv6_address(link.name, link.mtu), *hairpin, *_up(link.name, link.up))


def no_ipv6_address(name: str, mtu: int) -> tuple[Message, ...]:
    """Return the request that keeps ``name`` from making up IPv6 addresses.

    Nothing where the kernel has no IPv6 or the MTU is below IPv6's minimum: such a
    device has no IPv6 side that could be told.
    """
    if not has_ipv6() or mtu < 1280:
        return ()
    mode = attribute(INET6_ADDR_GEN_MODE, bytes([ADDR_GEN_NONE]))
    spec = nested(IFLA_AF_SPEC, nested(AF_INET6, mode))
    return (Message(nl.RTM_SETLINK, IFINFO.pack(0, 0, 0, 0, 0) + text(IFLA_IFNAME, name) + spec),)


def port_setting(name: str, setting: bytes) -> Message:
    """Return the request that changes one setting of the bridge port ``name``."""
    info = nested(IFLA_LINKINFO, text(INFO_SLAVE_KIND, "bridge"), nested(INFO_SLAVE_DATA, setting))
    return Message(nl.RTM_NEWLINK, IFINFO.pack(0, 0, 0, 0, 0) + text(IFLA_IFNAME, name) + info)


def _hairpin(on: bool) -> bytes:
    return attribute(BRPORT_MODE, bytes([on]))


def set_up(name: str) -> Message:
    """Return the request that brings ``name`` up."""
    return Message(nl.RTM_SETLINK, IFINFO.pack(0, 0, 0, IFF_UP, IFF_UP) + text(IFLA_IFNAME, name))


def _up(name: str, up: bool) -> tuple[Message, ...]:
    return (set_up(name),) if up else ()


def _set_link(old: Link, new: Link, index: Index) -> tuple[Message, ...]:
    flags = IFF_UP if new.up else 0
    change = IFF_UP if old.up != new.up else 0
    body = IFINFO.pack(0, 0, index(new.name), flags, change)
    if old.mtu != new.mtu:
        body += u32(IFLA_MTU, new.mtu)
    if new.mac and old.mac != new.mac:
        body += attribute(IFLA_ADDRESS, mac(new.mac))
    if old.master != new.master:
        body += u32(IFLA_MASTER, index(new.master) if new.master else 0)
    plain = (Message(nl.RTM_SETLINK, body),) if change or len(body) > IFINFO.size else ()
    if old.hairpin == new.hairpin:
        return plain
    return (*plain, port_setting(new.name, _hairpin(new.hairpin)))


def _vxlan(v: Vxlan, index: Index) -> tuple[bytes, ...]:
    return (
        u32(VXLAN_ID, v.vni),
        u32(VXLAN_LINK, index(v.dev)),
        attribute(VXLAN_LOCAL, v.local.packed),
        attribute(VXLAN_LEARNING, bytes([v.learning])),
        attribute(VXLAN_PORT, v.port.to_bytes(2, "big")),
    )


def _address(kind: int, a: Address, index: Index, flags: int = 0) -> Message:
    return address_message(kind, a, index(a.dev), flags)


def address_message(kind: int, a: Address, ifindex: int, flags: int = 0) -> Message:
    """Return the request about ``a`` on the device numbered ``ifindex``."""
    ip, network = a.interface.ip, a.interface.network
    body = IFADDR.pack(AF_INET, network.prefixlen, 0, 0, ifindex)
    body += attribute(IFA_LOCAL, ip.packed) + attribute(IFA_ADDRESS, ip.packed)
    if kind == nl.RTM_NEWADDR and network.prefixlen < 31:
        body += attribute(IFA_BROADCAST, network.broadcast_address.packed)
    return Message(kind, body, flags)


def _route(kind: int, r: Route, index: Index, flags: int = 0) -> Message:
    onlink = ONLINK if r.onlink else 0
    body = RTMSG.pack(
        AF_INET, r.dst.prefixlen, 0, 0, TABLE_MAIN, ROUTE_PROTOCOL, 0, UNICAST, onlink
    )
    body += attribute(RTA_DST, r.dst.network_address.packed)
    body += attribute(RTA_GATEWAY, r.via.packed) + u32(RTA_OIF, index(r.dev))
    return Message(kind, body, flags)


def default_route(via: IPv4Address, ifindex: int) -> Message:
    """Return the request for ``ip route add default via …``; not one of ours to diff."""
    body = RTMSG.pack(AF_INET, 0, 0, 0, TABLE_MAIN, PROTOCOL_BOOT, 0, UNICAST, 0)
    body += attribute(RTA_GATEWAY, via.packed) + u32(RTA_OIF, ifindex)
    return Message(nl.RTM_NEWROUTE, body, nl.CREATE | nl.EXCL)


def _neighbour(kind: int, n: Neighbour, index: Index, flags: int = 0) -> Message:
    body = NDMSG.pack(AF_INET, index(n.dev), NUD_PERMANENT, 0, 0)
    body += attribute(NDA_DST, n.ip.packed) + attribute(NDA_LLADDR, mac(n.mac))
    return Message(kind, body, flags)


def _forwarding(kind: int, f: Forwarding, index: Index, flags: int = 0) -> Message:
    body = NDMSG.pack(AF_BRIDGE, index(f.dev), NUD_PERMANENT, NTF_SELF, 0)
    body += attribute(NDA_LLADDR, mac(f.mac)) + attribute(NDA_DST, f.dst.packed)
    return Message(kind, body, flags)
