"""The two questions netfilter answers over netlink.

*Did anybody change a rule?* nf_tables counts its commits in every network namespace;
the count (``NFT_MSG_GETGEN``) costs one small message, so a loop that knows the number
after its own last write knows what the kernel holds without reading it back.

*Which connections are being translated, and forget this one.* The connection tracker
(ctnetlink) dumps its table and deletes single entries.

The layouts are those of ``linux/netfilter/nfnetlink.h``, ``nf_tables.h`` and
``nfnetlink_conntrack.h``: numbers are big-endian in attributes, host order in headers.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable
from ipaddress import IPv4Address

from labnet.errors import OpFailed
from labnet.kernel.netlink import (
    NETFILTER,
    Message,
    Netlink,
    Refused,
    attribute,
    attributes,
    nested,
)
from labnet.plan.conntrack import Connection, Endpoint

_FAMILY = struct.Struct("=BBH")  # struct nfgenmsg: address family, version, resource id
_AF_UNSPEC, _AF_INET = 0, 2
_GETGEN = (10 << 8) | 16  # NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN
_GEN_ID = 1
_CT_GET = (1 << 8) | 1  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET
_CT_DELETE = (1 << 8) | 2
_TUPLE_ORIG, _TUPLE_REPLY = 1, 2
_TUPLE_IP, _TUPLE_PROTO = 1, 2
_NO_NF_TABLES = (errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ENOENT)


class NetfilterSocket:
    """A netlink socket of the network namespace the caller is in. Close it."""

    def __init__(self) -> None:
        self._netlink = Netlink(NETFILTER)

    def close(self) -> None:
        """Release the socket."""
        self._netlink.close()

    def generation(self) -> int | None:
        """Return nf_tables' commit count, None where the kernel has no nf_tables."""
        try:
            answer = self._netlink.get(_message(_GETGEN, _AF_UNSPEC))
        except Refused as error:
            if error.refusal.errno in _NO_NF_TABLES:
                return None
            raise OpFailed(f"nft list ruleset: {error}") from error
        value = _fields(answer).get(_GEN_ID) if answer else None
        return int.from_bytes(value, "big") if value else None

    def connections(self, protocol: int) -> tuple[Connection, ...]:
        """Return what the connection tracker holds for an IP protocol number, IPv4."""
        try:
            answers = self._netlink.dump(_message(_CT_GET, _AF_INET))
        except Refused as error:
            raise OpFailed(f"conntrack -L: {error}") from error
        found = map(_connection, answers)
        return tuple(c for c in found if c is not None and c.protocol == protocol)

    def forget(self, connections: Iterable[Connection]) -> None:
        """Delete entries; one that is gone already is no error."""
        flows = tuple(connections)
        refused = self._netlink.batch(
            [_message(_CT_DELETE, _AF_INET, _tuple_of(flow)) for flow in flows]
        )
        for position, refusal in sorted(refused.items()):
            if refusal.errno != errno.ENOENT:
                raise OpFailed(f"conntrack -D {flows[position]}: {refusal}")


def _message(kind: int, family: int, body: bytes = b"") -> Message:
    return Message(kind, _FAMILY.pack(family, 0, 0) + body)


def _fields(payload: bytes) -> dict[int, bytes]:
    return attributes(payload, _FAMILY.size)


def _connection(payload: bytes) -> Connection | None:
    found = _fields(payload)
    original = _ends(found.get(_TUPLE_ORIG, b""))
    reply = _ends(found.get(_TUPLE_REPLY, b""))
    if original is None or reply is None:
        return None
    protocol, source, destination = original
    return Connection(protocol, source, destination, replier=reply[1])


def _ends(data: bytes) -> tuple[int, Endpoint, Endpoint] | None:
    parts = attributes(data, 0)
    addresses = attributes(parts.get(_TUPLE_IP, b""), 0)
    proto = attributes(parts.get(_TUPLE_PROTO, b""), 0)
    if not {1, 2} <= addresses.keys() or not {1, 2, 3} <= proto.keys():
        return None  # IPv6, or a protocol without ports
    (sport,), (dport,) = struct.unpack(">H", proto[2]), struct.unpack(">H", proto[3])
    return (
        proto[1][0],
        (IPv4Address(addresses[1]), sport),
        (IPv4Address(addresses[2]), dport),
    )


def _tuple_of(connection: Connection) -> bytes:
    (source, sport), (destination, dport) = connection.source, connection.destination
    ip = attribute(1, source.packed) + attribute(2, destination.packed)
    proto = (
        attribute(1, bytes([connection.protocol]))
        + attribute(2, struct.pack(">H", sport))
        + attribute(3, struct.pack(">H", dport))
    )
    return nested(_TUPLE_ORIG, nested(_TUPLE_IP, ip), nested(_TUPLE_PROTO, proto))
