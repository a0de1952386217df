"""netlink, the little of it that labnet speaks, packed by hand.

A netlink message is a 16-byte header (length, type, flags, sequence number, port), a
fixed struct that depends on the type, and attributes: length, type, value, padded to
four bytes, nested at will. Several messages may travel in one ``send``; the kernel
works through all of them, in order, before ``send`` returns, and answers each refusal
with the sequence number of the message refused. That makes one system call do the work
of six ``ip`` commands, and is why labnet has an encoder of its own: a pod costs about
one millisecond, where a general library takes ten to forty.

Limits: without privileges on the host a socket buffer holds 208 kB, so a batch is sent
in chunks. Formats: linux/netlink.h, linux/rtnetlink.h, linux/if_link.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST, MULTI, ACK = 0x1, 0x2, 0x4
REPLACE, EXCL, CREATE = 0x100, 0x200, 0x400
DUMP = 0x300

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_SETLINK = 16, 17, 18, 19
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30

HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")
ERROR = struct.Struct("=i")

ROUTE, NETFILTER = 0, 12  # what a socket can be about, linux/netlink.h
SOL_NETLINK = 270
NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK = 10, 11, 12
NLM_F_ACK_TLVS = 0x200
NLMSGERR_ATTR_MSG = 1
NESTED = 0x8000

CHUNK = 64  # messages per send: well below any socket buffer, also for the answers
_RECEIVE = 1 << 17


@dataclass(frozen=True, slots=True)
class Message:
    """One request without its header: type, extra flags, body."""

    type: int
    body: bytes
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """The kernel's answer to a request it did not carry out."""

    errno: int
    detail: str = ""  # the kernel's own explanation, where it gives one

    def __str__(self) -> str:
        text = os.strerror(self.errno)
        return f"{text} ({self.detail})" if self.detail else text


class Refused(Exception):
    """A single request failed."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def attribute(kind: int, value: bytes) -> bytes:
    """Return one attribute, padded to four bytes."""
    return ATTRIBUTE.pack(len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def text(kind: int, value: str) -> bytes:
    """Return a string attribute, with its NUL."""
    return attribute(kind, value.encode() + b"\0")


def u32(kind: int, value: int) -> bytes:
    """Return a 32-bit attribute in the machine's byte order."""
    return attribute(kind, value.to_bytes(4, "little" if LITTLE_ENDIAN else "big"))


def nested(kind: int, *values: bytes) -> bytes:
    """Return an attribute that holds attributes."""
    return attribute(kind | NESTED, b"".join(values))


def attributes(body: bytes, offset: int) -> dict[int, bytes]:
    """Return the attributes that begin at ``offset``, by type."""
    found: dict[int, bytes] = {}
    end = len(body)
    while offset + 4 <= end:
        length, kind = ATTRIBUTE.unpack_from(body, offset)
        if length < 4:
            break
        found[kind & 0x3FFF] = body[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return found


LITTLE_ENDIAN = struct.pack("=H", 1) == b"\1\0"


class Netlink:
    """One netlink socket, bound to the namespace the calling thread is in.

    ``about`` is ``ROUTE`` or ``NETFILTER``. Not for two threads at once. Close it.
    """

    def __init__(self, about: int = ROUTE) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        self._socket = socket.socket(socket.AF_NETLINK, kind, about)
        try:
            for option in (NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK):
                self._socket.setsockopt(SOL_NETLINK, option, 1)
        except OSError:
            self._socket.close()
            raise
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def batch(self, messages: Sequence[Message]) -> dict[int, Refusal]:
        """Send ``messages`` in order; return what was refused, by position."""
        refused: dict[int, Refusal] = {}
        for start in range(0, len(messages), CHUNK):
            chunk = messages[start : start + CHUNK]
            first = self._sequence + 1
            last = len(chunk) - 1
            self._socket.send(
                b"".join(self._pack(m, ACK if i == last else 0) for i, m in enumerate(chunk))
            )
            for sequence, refusal in self._answers(first + last):
                refused[start + sequence - first] = refusal
        return refused

    def get(self, message: Message) -> bytes | None:
        """Return the body of the one answer to ``message``; None if there is none.

        Raises ``Refused``.
        """
        return next(iter(self._ask(message, 0)), None)

    def dump(self, message: Message) -> list[bytes]:
        """Return the bodies of all answers to a dump request. Raises ``Refused``."""
        return self._ask(message, DUMP)

    def _ask(self, message: Message, flags: int) -> list[bytes]:
        self._socket.send(self._pack(message, flags))
        bodies: list[bytes] = []
        while True:
            for kind, _, sequence, flagged, body in self._receive():
                if sequence != self._sequence:
                    continue
                if kind == NLMSG_ERROR and (errno := -ERROR.unpack_from(body)[0]):
                    raise Refused(_refusal(errno, body, flagged))
                if kind in (NLMSG_ERROR, NLMSG_DONE):
                    return bodies
                bodies.append(body)
                if not flagged & MULTI:
                    return bodies

    def _pack(self, message: Message, flags: int) -> bytes:
        self._sequence += 1
        length = HEADER.size + len(message.body)
        flags |= message.flags | REQUEST
        return HEADER.pack(length, message.type, flags, self._sequence, 0) + message.body

    def _answers(self, last: int) -> Iterator[tuple[int, Refusal]]:
        """Yield refusals until the message ``last``, the one to be acknowledged."""
        while True:
            for kind, _, sequence, flagged, body in self._receive():
                if kind != NLMSG_ERROR:
                    continue
                if errno := -ERROR.unpack_from(body)[0]:
                    yield sequence, _refusal(errno, body, flagged)
                if sequence == last:
                    return

    def _receive(self) -> Iterator[tuple[int, int, int, int, bytes]]:
        data = self._socket.recv(_RECEIVE)
        offset = 0
        while offset + HEADER.size <= len(data):
            length, kind, flags, sequence, port = HEADER.unpack_from(data, offset)
            yield kind, port, sequence, flags, data[offset + HEADER.size : offset + length]
            offset += (length + 3) & ~3


def _refusal(errno: int, body: bytes, flags: int) -> Refusal:
    if not flags & NLM_F_ACK_TLVS:
        return Refusal(errno)
    # NETLINK_CAP_ACK: error number, then only the header of the refused request.
    told = attributes(body, ERROR.size + HEADER.size).get(NLMSGERR_ATTR_MSG, b"")
    return Refusal(errno, told.rstrip(b"\0").decode(errors="replace").rstrip("."))
