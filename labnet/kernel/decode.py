"""The kernel's answers as the values plans are made of.

Each ``…_query`` is the question, with the filter that the kernel itself applies
(strict checking is on), each other function reads one answer. Asking for one device
by name costs some ten microseconds; dumping a node with a thousand pods would cost a
megabyte each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from labnet.kernel import encode as e
from labnet.kernel import netlink as nl
from labnet.kernel.netlink import Message, attributes, text, u32
from labnet.plan.state import (
    ROUTE_PROTOCOL,
    Address,
    Forwarding,
    Link,
    Neighbour,
    Route,
    Vxlan,
)

Name = Callable[[int], str]  # a device's number in this namespace → its name
SKIP_STATISTICS = 8


def link_query(name: str) -> Message:
    """Ask for the link called ``name``."""
    body = e.IFINFO.pack(0, 0, 0, 0, 0) + u32(e.IFLA_EXT_MASK, SKIP_STATISTICS)
    return Message(nl.RTM_GETLINK, body + text(e.IFLA_IFNAME, name))


def link_by_index_query(ifindex: int) -> Message:
    """Ask for the link numbered ``ifindex``."""
    body = e.IFINFO.pack(0, 0, ifindex, 0, 0) + u32(e.IFLA_EXT_MASK, SKIP_STATISTICS)
    return Message(nl.RTM_GETLINK, body)


def addresses_query(ifindex: int) -> Message:
    """Ask for the IPv4 addresses of one device."""
    return Message(nl.RTM_GETADDR, e.IFADDR.pack(e.AF_INET, 0, 0, 0, ifindex))


def routes_query() -> Message:
    """Ask for the IPv4 routes of the main table that carry our protocol."""
    body = e.RTMSG.pack(e.AF_INET, 0, 0, 0, e.TABLE_MAIN, ROUTE_PROTOCOL, 0, 0, 0)
    return Message(nl.RTM_GETROUTE, body)


def neighbours_query(ifindex: int) -> Message:
    """Ask for the ARP entries of one device."""
    body = e.NDMSG.pack(e.AF_INET, 0, 0, 0, 0) + u32(e.NDA_IFINDEX, ifindex)
    return Message(nl.RTM_GETNEIGH, body)


def forwardings_query(ifindex: int) -> Message:
    """Ask for the forwarding entries of one device."""
    return Message(nl.RTM_GETNEIGH, e.NDMSG.pack(e.AF_BRIDGE, ifindex, 0, 0, 0))


def link_index(body: bytes) -> int:
    """Return the number of the link that ``body`` describes."""
    return int(e.IFINFO.unpack_from(body)[2])


def link_name(body: bytes) -> str:
    """Return the name of the link that ``body`` describes."""
    return _text(attributes(body, e.IFINFO.size)[e.IFLA_IFNAME])


def link(body: bytes, name: Name) -> Link:
    """Read one link; ``name`` is asked for its bridge and its VXLAN's device."""
    flags = e.IFINFO.unpack_from(body)[3]
    at = attributes(body, e.IFINFO.size)
    info = attributes(at.get(e.IFLA_LINKINFO, b""), 0)
    kind = _text(info.get(e.INFO_KIND, b""))
    data = attributes(info.get(e.INFO_DATA, b""), 0)
    port = attributes(info.get(e.INFO_SLAVE_DATA, b""), 0)
    return Link(
        name=_text(at[e.IFLA_IFNAME]),
        kind=kind,
        mtu=_number(at[e.IFLA_MTU]),
        mac=at.get(e.IFLA_ADDRESS, b"").hex(":"),
        up=bool(flags & e.IFF_UP),
        master=name(_number(at[e.IFLA_MASTER])) if e.IFLA_MASTER in at else "",
        hairpin=bool(port.get(e.BRPORT_MODE, b"\0")[0]),
        vxlan=_vxlan(data, name) if kind == "vxlan" else None,
    )


def _vxlan(data: Mapping[int, bytes], name: Name) -> Vxlan:
    dev = _number(data.get(e.VXLAN_LINK, b"\0\0\0\0"))
    return Vxlan(
        vni=_number(data[e.VXLAN_ID]),
        port=int.from_bytes(data[e.VXLAN_PORT], "big"),
        local=IPv4Address(data.get(e.VXLAN_LOCAL, b"\0\0\0\0")),
        dev=name(dev) if dev else "",
        learning=bool(data[e.VXLAN_LEARNING][0]),
    )


def address(body: bytes, dev: str) -> Address | None:
    """Read one address of ``dev``; None for another family's."""
    family, length, _, _, _ = e.IFADDR.unpack_from(body)
    at = attributes(body, e.IFADDR.size)
    if family != e.AF_INET or e.IFA_LOCAL not in at:
        return None
    return Address(dev, IPv4Interface((at[e.IFA_LOCAL], length)))


def route(body: bytes, name: Name) -> Route | None:
    """Read one route; None if it is not of the kind that labnet makes."""
    family, length, _, _, table, protocol, _, _, flags = e.RTMSG.unpack_from(body)
    at = attributes(body, e.RTMSG.size)
    ours = (family, table, protocol) == (e.AF_INET, e.TABLE_MAIN, ROUTE_PROTOCOL)
    if not ours or e.RTA_GATEWAY not in at or e.RTA_OIF not in at:
        return None
    return Route(
        dst=IPv4Network((at.get(e.RTA_DST, b"\0\0\0\0"), length)),
        via=IPv4Address(at[e.RTA_GATEWAY]),
        dev=name(_number(at[e.RTA_OIF])),
        onlink=bool(flags & e.ONLINK),
    )


def neighbour(body: bytes, dev: str) -> Neighbour | None:
    """Read one ARP entry of ``dev``; None unless it is permanent."""
    family, _, state, _, _ = e.NDMSG.unpack_from(body)
    at = attributes(body, e.NDMSG.size)
    if family != e.AF_INET or state != e.NUD_PERMANENT or e.NDA_LLADDR not in at:
        return None
    return Neighbour(dev, IPv4Address(at[e.NDA_DST]), at[e.NDA_LLADDR].hex(":"))


def forwarding(body: bytes, dev: str) -> Forwarding | None:
    """Read one forwarding entry of the VXLAN device ``dev``; None for other entries."""
    _, _, _, flags, _ = e.NDMSG.unpack_from(body)
    at = attributes(body, e.NDMSG.size)
    if not flags & e.NTF_SELF or e.NDA_DST not in at:
        return None
    return Forwarding(dev, at[e.NDA_LLADDR].hex(":"), IPv4Address(at[e.NDA_DST]))


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode()


def _number(value: bytes) -> int:
    return int.from_bytes(value[:4], "little" if nl.LITTLE_ENDIAN else "big")
