"""The two questions netfilter answers over a plain netlink socket.

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
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address

from labnet.errors import OpFailed
from labnet.plan.conntrack import Connection

_NETLINK_NETFILTER = 12
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_ERROR, _DONE = 0x2, 0x3
_NESTED = 0x8000
_GETGEN = (10 << 8) | 16  # NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN
_CT_GET = (1 << 8) | 1  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET
_CT_DELETE = (1 << 8) | 2
_TUPLE_ORIG, _TUPLE_REPLY, _CT_ID = 1, 2, 12
_TUPLE_IP, _TUPLE_PROTO = 1, 2


class NetfilterSocket:
    """A netlink socket of the network namespace the caller is in. Close it."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        """Release the socket."""
        self._socket.close()

    def generation(self) -> int | None:
        """Return nf_tables' commit count, None where the kernel has no nf_tables."""
        try:
            for payload in self._talk(_GETGEN, 0, b"", family=socket.AF_UNSPEC):
                value = _attributes(payload[4:]).get(1)
                if value:
                    return int(struct.unpack(">I", value)[0])
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ENOENT):
                raise
        return None

    def connections(self, protocol: int) -> tuple[Connection, ...]:
        """Return what the connection tracker holds for an IP protocol number, IPv4."""
        try:
            answers = tuple(self._talk(_CT_GET, _DUMP, b"", family=socket.AF_INET))
        except OSError as error:
            raise OpFailed(f"conntrack -L: {error.strerror}") from error
        found = map(_connection, answers)
        return tuple(c for c in found if c is not None and c.protocol == protocol)

    def forget(self, connections: Iterable[Connection]) -> None:
        """Delete entries; one that is gone already is no error."""
        for connection in connections:
            body = _tuple_of(connection)
            try:
                for _ in self._talk(_CT_DELETE, _ACK, body, family=socket.AF_INET):
                    pass
            except OSError as error:
                if error.errno != errno.ENOENT:
                    raise OpFailed(f"conntrack -D {connection}: {error.strerror}") from error

    def _talk(self, kind: int, flags: int, body: bytes, *, family: int) -> Iterator[bytes]:
        """Send one request and yield the payloads of its answers. Raises OSError."""
        self._sequence += 1
        payload = struct.pack("=BBH", family, 0, 0) + body
        header = _HEADER.pack(
            _HEADER.size + len(payload), kind, _REQUEST | flags, self._sequence, 0
        )
        self._socket.send(header + payload)
        while True:
            for answer, answer_kind in self._messages(self._socket.recv(1 << 17)):
                if answer_kind == _DONE:
                    return
                if answer_kind == _ERROR:
                    code = -struct.unpack_from("=i", answer)[0]
                    if code:
                        raise OSError(code, os.strerror(code))
                    return
                yield answer
                if not flags:
                    return

    def _messages(self, datagram: bytes) -> Iterator[tuple[bytes, int]]:
        offset = 0
        while offset + _HEADER.size <= len(datagram):
            length, kind, _, sequence, _ = _HEADER.unpack_from(datagram, offset)
            if sequence == self._sequence:
                yield datagram[offset + _HEADER.size : offset + length], kind
            offset += (length + 3) & ~3


def _attributes(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    offset = 0
    while offset + 4 <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return found


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def _connection(payload: bytes) -> Connection | None:
    attributes = _attributes(payload[4:])
    original = _ends(attributes.get(_TUPLE_ORIG, b""))
    reply = _ends(attributes.get(_TUPLE_REPLY, b""))
    if original is None or reply is None:
        return None
    protocol, source, destination = original
    return Connection(protocol, source, destination, replier=reply[1])


def _ends(data: bytes) -> tuple[int, tuple[IPv4Address, int], tuple[IPv4Address, int]] | None:
    parts = _attributes(data)
    addresses = _attributes(parts.get(_TUPLE_IP, b""))
    proto = _attributes(parts.get(_TUPLE_PROTO, b""))
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
    ip = _attribute(1, source.packed) + _attribute(2, destination.packed)
    proto = (
        _attribute(1, bytes([connection.protocol]))
        + _attribute(2, struct.pack(">H", sport))
        + _attribute(3, struct.pack(">H", dport))
    )
    nested = _attribute(_TUPLE_IP | _NESTED, ip) + _attribute(_TUPLE_PROTO | _NESTED, proto)
    return _attribute(_TUPLE_ORIG | _NESTED, nested)
