"""WebSocket frames and Kubernetes' channels in them, as bytes and values (RFC 6455).

``kubectl exec`` speaks ``v5.channel.k8s.io``: binary messages whose first byte names a
stream. 0 is stdin, 1 stdout, 2 stderr, 3 the final Status, 4 the terminal's size; since
v5 a message on 255 says that the stream named in it has ended, which is how ``cat``
learns that its input is over.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1

from labnet.errors import LabnetError

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
CONTINUATION, TEXT, BINARY, CLOSING, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
MESSAGE_MAX = 16 * 1024 * 1024
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class ProtocolError(LabnetError):
    """The peer does not speak WebSocket."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, unmasked."""

    opcode: int
    payload: bytes
    final: bool = True


def accept_key(key: str) -> str:
    """Return ``Sec-WebSocket-Accept`` for a client's ``Sec-WebSocket-Key``."""
    return b64encode(sha1(f"{key}{_GUID}".encode()).digest()).decode()  # the RFC's choice


def chosen(offered: str) -> str | None:
    """Return the protocol to speak of a ``Sec-WebSocket-Protocol`` header, or None."""
    names = [name.strip() for name in offered.split(",")]
    return next((name for name in PROTOCOLS if name in names), None)


def upgrade_answer(key: str, protocol: str) -> bytes:
    """Return the 101 response."""
    lines = (
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept_key(key)}",
        f"Sec-WebSocket-Protocol: {protocol}",
    )
    return "\r\n".join((*lines, "", "")).encode()


def encode(opcode: int, payload: bytes) -> bytes:
    """Return a server's frame: final and not masked."""
    length = len(payload)
    if length < 126:
        return struct.pack("!BB", 0x80 | opcode, length) + payload
    if length < 65536:
        return struct.pack("!BBH", 0x80 | opcode, 126, length) + payload
    return struct.pack("!BBQ", 0x80 | opcode, 127, length) + payload


def message(channel: int, data: bytes) -> bytes:
    """Return the frame that carries ``data`` on ``channel``."""
    return encode(BINARY, bytes((channel,)) + data)


def decode(data: bytes) -> tuple[Frame, int] | None:
    """Return the first frame in ``data`` and its length, None while it is incomplete.

    Raises ``ProtocolError`` for a frame that is not masked (a client's must be) or is
    longer than ``MESSAGE_MAX``.
    """
    if len(data) < 2:
        return None
    masked, length = data[1] & 0x80, data[1] & 0x7F
    start = {126: 4, 127: 10}.get(length, 2)
    if len(data) < start + 4:
        return None
    if length >= 126:
        length = int.from_bytes(data[2:start], "big")
    if not masked or length > MESSAGE_MAX:
        raise ProtocolError("a client's WebSocket frames are masked and of sensible length")
    end = start + 4 + length
    if len(data) < end:
        return None
    payload = _unmasked(data[start + 4 : end], data[start : start + 4])
    return Frame(data[0] & 0x0F, payload, bool(data[0] & 0x80)), end


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    """XOR with the mask, as one large integer: a byte loop would cost a second per 10 MB."""
    if not payload:
        return b""
    key = (mask * (len(payload) // 4 + 1))[: len(payload)]
    number = int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")
    return number.to_bytes(len(payload), "big")


class Reader:
    """Collects bytes into whole messages; control frames come through by themselves."""

    def __init__(self) -> None:
        self._data = b""
        self._parts: list[bytes] = []
        self._opcode = BINARY

    def feed(self, data: bytes) -> Sequence[Frame]:
        """Return every message that is whole with ``data``. Raises ``ProtocolError``."""
        self._data += data
        found = []
        while (decoded := decode(self._data)) is not None:
            frame, length = decoded
            self._data = self._data[length:]
            if (whole := self._joined(frame)) is not None:
                found.append(whole)
        return found

    def _joined(self, frame: Frame) -> Frame | None:
        if frame.opcode >= CLOSING:
            return frame
        if frame.opcode != CONTINUATION:
            self._opcode, self._parts = frame.opcode, []
        self._parts.append(frame.payload)
        if sum(map(len, self._parts)) > MESSAGE_MAX:
            raise ProtocolError("a WebSocket message of more than 16 MB")
        if not frame.final:
            return None
        whole, self._parts = b"".join(self._parts), []
        return Frame(self._opcode, whole)
