"""Protobuf request bodies, decoded to JSON objects. Decoding only.

Typed Go clients (``kubectl create deployment``, controllers) send their objects as
protobuf and take JSON back, so a server has to read this form and never to write it.
A body is the four bytes ``k8s\\0`` and a ``runtime.Unknown`` message, whose field 1 names
apiVersion and kind and whose field 2 is the object.

On the wire a field is a number, a wire type and a value; names and types are known only
to both ends. ``data/protobuf.json.gz`` (``scripts/generate_protobuf_table.py``) has them:
for each message ``[number, JSON name, type, keep zero]``. Field numbers never change,
and a field that the table does not know is skipped, as protobuf has it.
"""

from __future__ import annotations

import gzip
import json
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from labnet.api.meta import Object
from labnet.api.status import bad_request
from labnet.clock import rfc3339, rfc3339_micro

_DATA = Path(__file__).with_name("data") / "protobuf.json.gz"
MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_META = "apimachinery.pkg.apis.meta.v1."
_UNKNOWN = "apimachinery.pkg.runtime.Unknown"
_DEEPEST = 64


class Malformed(Exception):
    """Bytes that are not the message they should be."""


@dataclass(frozen=True, slots=True)
class Field:
    """What the table knows about one field of a message."""

    name: str  # in JSON; "": the message's fields stand among its parent's
    type: str  # string, bytes, bool, int32, …, or a message's name
    repeated: bool
    map: bool  # from string to ``type``
    keep_zero: bool  # a pointer, or a field that JSON always shows


@cache
def _table() -> dict[str, list[Any]]:
    packed = _DATA.read_bytes()
    table: dict[str, list[Any]] = json.loads(gzip.decompress(packed))
    return table


@cache
def _message(name: str) -> dict[int, Field]:
    return {
        number: Field(
            json_name, kind.lstrip("[]{}"), kind.startswith("[]"), kind.startswith("{}"), bool(keep)
        )
        for number, json_name, kind, keep in _table()[name]
    }


def decode(body: bytes) -> Object:
    """Return the object in ``body`` with its kind and apiVersion; ApiError 400."""
    if not body.startswith(MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message")
    try:
        return _decode(body[len(MAGIC) :])
    except (Malformed, UnicodeDecodeError, ValueError, OverflowError) as error:
        raise bad_request(f"unable to decode the protobuf message: {error}") from None


def _decode(envelope: bytes) -> Object:
    parts = {number: value for number, _, value in fields(envelope)}
    type_meta, raw = parts.get(1, b""), parts.get(2, b"")
    if not isinstance(type_meta, bytes) or not isinstance(raw, bytes):
        raise Malformed("no runtime.Unknown")
    typed = _object(type_meta, "apimachinery.pkg.runtime.TypeMeta", 0)
    api_version, kind = typed.get("apiVersion", ""), typed.get("kind", "")
    name = message_name(api_version, kind)
    if name is None:
        raise Malformed(f'no kind "{kind}" is registered for version "{api_version}"')
    return {"kind": kind, "apiVersion": api_version} | _object(raw, name, 0)


def message_name(api_version: str, kind: str) -> str | None:
    """Return the message that an object of this kind is sent as, None for none known."""
    group, _, version = api_version.rpartition("/")
    package = group.partition(".")[0] if group else "core"
    for name in (f"api.{package}.{version}.{kind}", _META + kind):
        if name in _table():
            return name
    return None


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield (field number, wire type, value) of a message; raises Malformed."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise Malformed(f"wire type {wire} of field {number}")
        if at + size > len(data):
            raise Malformed("unexpected end of message")
        yield number, wire, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed("bad varint")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _object(data: bytes, name: str, depth: int) -> Object:
    if depth > _DEEPEST:
        raise Malformed("nested too deep")
    known = _message(name)
    out: Object = {}
    for number, wire, raw in fields(data):
        field = known.get(number)
        if field is not None and field.name != "-":
            _put(out, field, wire, raw, depth)
    return out


def _put(out: Object, field: Field, wire: int, raw: int | bytes, depth: int) -> None:
    """Add one field as it came off the wire to the JSON object."""
    if field.map:
        key, value = _entry(raw, field.type, depth)
        out.setdefault(field.name, {})[key] = value
    elif field.repeated and wire == _BYTES and field.type in _NUMBERS:  # packed
        out.setdefault(field.name, []).extend(_packed(raw, field.type))
    else:
        value = _value(wire, raw, field.type, depth)
        if field.repeated:
            out.setdefault(field.name, []).append(value)
        elif field.name == "":
            out.update(value)
        elif value is not None and (field.keep_zero or value or isinstance(value, dict)):
            out[field.name] = value


def _entry(raw: int | bytes, kind: str, depth: int) -> tuple[str, Any]:
    key, value = "", _value(_BYTES, b"", kind, depth) if kind not in _NUMBERS else 0
    for number, wire, part in fields(_bytes(raw)):
        if number == 1:
            key = _bytes(part).decode()
        elif number == 2:
            value = _value(wire, part, kind, depth)
    return key, value


def _bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise Malformed("a number where bytes are due")
    return raw


def _packed(raw: int | bytes, kind: str) -> Iterator[Any]:
    data, at = _bytes(raw), 0
    while at < len(data):
        value, at = _varint(data, at)
        yield _NUMBERS[kind](value)


def _value(wire: int, raw: int | bytes, kind: str, depth: int) -> Any:
    if kind in _NUMBERS:
        if not isinstance(raw, int):
            raise Malformed("bytes where a number is due")
        return _NUMBERS[kind](raw)
    if kind == "double":
        return struct.unpack("<d", _bytes(raw))[0] if wire == _FIXED64 else 0.0
    data = _bytes(raw)
    if kind == "string":
        return data.decode()
    if kind == "bytes":
        return b64encode(data).decode()
    special = _SPECIAL.get(kind)
    return special(data) if special else _object(data, kind, depth + 1)


def _signed(bits: int) -> Callable[[int], int]:
    """Return how a varint becomes a number of ``bits`` bits; negatives are sent as 64."""

    def number(value: int) -> int:
        value &= (1 << bits) - 1
        return value - (1 << bits) if value >> (bits - 1) else value

    return number


_NUMBERS: dict[str, Callable[[int], Any]] = {
    "bool": bool,
    "int32": _signed(32),
    "int64": _signed(64),
    "uint32": int,
    "uint64": int,
}


def _moment(data: bytes, name: str) -> datetime | None:
    parts = _object(data, _META + name, 0)
    if not parts:  # Go's zero time: not set
        return None
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    micros = parts.get("nanos", 0) // 1000
    return epoch + timedelta(seconds=parts.get("seconds", 0), microseconds=micros)


def _time(data: bytes) -> str | None:
    moment = _moment(data, "Time")
    return rfc3339(moment) if moment else None


def _micro_time(data: bytes) -> str | None:
    moment = _moment(data, "MicroTime")
    return rfc3339_micro(moment) if moment else None


def _quantity(data: bytes) -> str:
    text: str = _object(data, "apimachinery.pkg.api.resource.Quantity", 0).get("string", "0")
    return text


def _int_or_string(data: bytes) -> int | str:
    parts = _object(data, "apimachinery.pkg.util.intstr.IntOrString", 0)
    found: int | str = parts.get("strVal", "") if parts.get("type") else parts.get("intVal", 0)
    return found


def _raw_json(data: bytes) -> Any:
    """Decode RawExtension and FieldsV1: JSON text in field 1."""
    for number, _, value in fields(data):
        if number == 1 and isinstance(value, bytes):
            return json.loads(value)
    return None


def _items(data: bytes) -> list[str]:
    """Decode a message that wraps a list of strings (ExtraValue)."""
    return [_bytes(value).decode() for number, _, value in fields(data) if number == 1]


_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    _META + "Time": _time,
    _META + "MicroTime": _micro_time,
    _META + "FieldsV1": _raw_json,
    "apimachinery.pkg.api.resource.Quantity": _quantity,
    "apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "apimachinery.pkg.runtime.RawExtension": _raw_json,
    "api.authentication.v1.ExtraValue": _items,
    "api.authorization.v1.ExtraValue": _items,
}
