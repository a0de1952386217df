"""How protocol buffers lie in bytes: the little of it that etcd's API needs.

A message is a run of fields. Each begins with a *tag*, ``number << 3 | type``, then its
value: type 0 is a varint (seven bits a byte, lowest first, the top bit says "goes on"),
type 2 is a length and that many bytes (bytes, text, or another message). A field that
holds its zero value is left out. That is all of https://protobuf.dev/programming-guides/encoding/
which etcd's requests use.

Doing it here costs 80 lines and saves each process that talks to etcd the import of a
protobuf runtime: docs/adr/0002-etcd-client.md has the figures.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, LENGTH = 0, 2
_FIXED = {1: 8, 5: 4}  # types etcd never sends; skipped by their size
_INT64 = 1 << 64


def varint(number: int) -> bytes:
    """Return ``number`` as a varint; negative ones take ten bytes, as int64 does."""
    if 0 <= number < 0x80:
        return bytes((number,))
    number %= _INT64
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def integer(field: int, value: int) -> bytes:
    """Return an int64, bool or enum field; nothing for zero."""
    return varint(field << 3 | VARINT) + varint(value) if value else b""


def message(field: int, body: bytes) -> bytes:
    """Return a field that holds a message, which is there even when it is empty."""
    return varint(field << 3 | LENGTH) + varint(len(body)) + body


def octets(field: int, value: bytes) -> bytes:
    """Return a bytes field; nothing for empty ones."""
    return message(field, value) if value else b""


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) in the order they lie; unknown fields too.

    Raises ValueError for bytes that are no message.
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint_at(data, at)
        kind = tag & 7
        if kind == LENGTH:
            size, at = _varint_at(data, at)
            if at + size > end:
                raise ValueError("a protobuf field is longer than its message")
            yield tag >> 3, data[at : at + size]
            at += size
        elif kind == VARINT:
            value, at = _varint_at(data, at)
            yield tag >> 3, value
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise ValueError(f"protobuf wire type {kind} is not one etcd uses")


def signed(value: int) -> int:
    """Return a varint read as int64: the upper half of its range is negative."""
    return value - _INT64 if value >= _INT64 >> 1 else value
