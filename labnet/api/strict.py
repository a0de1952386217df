"""Decoding against the schema: nothing unknown is kept, nothing of a wrong type passes.

A real API server decodes into Go structs. What no struct field takes is lost, and said
so (``unknown field "spec.replica"``); what does not fit a field's type is an error with
the Go decoder's words. This walk over JSON does the same, so that a typo in a manifest
reads the same here as everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from labnet.api.meta import Object
from labnet.api.schema import Shape


class TypeMismatch(Exception):
    """A value that does not fit its field, in the words of Go's encoding/json."""


QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_GO_TYPES = {"integer": "int64", "number": "float64", "boolean": "bool", "string": "string"}
_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "string": str,
}


def prune(obj: Object, shape: Shape) -> tuple[Object, list[str]]:
    """Return ``obj`` without what ``shape`` does not know, and the paths of that.

    Raises TypeMismatch.
    """
    unknown: list[str] = []
    pruned: Object = _Walk(unknown).value(obj, shape, "", _Place("", ""))
    return pruned, unknown


class _Place:
    """Where a value stands, as Go tells it: the innermost struct, the path of names."""

    __slots__ = ("path", "struct")

    def __init__(self, struct: str, path: str) -> None:
        self.struct = struct
        self.path = path

    def __str__(self) -> str:
        return f"Go struct field {self.struct}.{self.path}" if self.struct else "Go value"


class _Walk:
    def __init__(self, unknown: list[str]) -> None:
        self.unknown = unknown

    def value(self, value: Any, shape: Shape, path: str, place: _Place) -> Any:
        match shape.type:
            case "any":
                return value
            case "object":
                return self._object(_require(value, dict, shape, place), shape, path, place)
            case "map":
                return self._map(_require(value, dict, shape, place), shape, path, place)
            case "list":
                return self._list(_require(value, list, shape, place), shape, path, place)
            case _:
                return _scalar(value, shape, place)

    def _object(self, value: Object, shape: Shape, path: str, place: _Place) -> Object:
        fields, struct = shape.fields, shape.ref.rpartition(".")[2]
        out: Object = {}
        for name, child in value.items():
            at = f"{path}.{name}" if path else name
            known = fields.get(name)
            if known is None:
                self.unknown.append(at)
            elif child is not None:
                below = _Place(struct, f"{place.path}.{name}" if place.path else name)
                out[name] = self.value(child, known, at, below)
        return out

    def _map(self, value: Object, shape: Shape, path: str, place: _Place) -> Object:
        item = shape.item or Shape("any")
        if item.type == "string":  # the common case: labels, data
            for child in value.values():
                if not isinstance(child, str) and child is not None:
                    raise _mismatch(child, item, place)
            return {name: child or "" for name, child in value.items()}
        return {
            name: self.value(child, item, f"{path}.{name}", place)
            for name, child in value.items()
            if child is not None
        }

    def _list(self, value: list[Any], shape: Shape, path: str, place: _Place) -> list[Any]:
        item = shape.item or Shape("any")
        zero = _ZEROS.get(item.type, dict)
        return [
            zero() if child is None else self.value(child, item, f"{path}[{n}]", place)
            for n, child in enumerate(value)
        ]


_ZEROS: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool, "list": list}


def _require(value: Any, kind: type, shape: Shape, place: _Place) -> Any:
    if not isinstance(value, kind):
        raise _mismatch(value, shape, place)
    return value


def _scalar(value: Any, shape: Shape, place: _Place) -> Any:
    if shape.type == "quantity":
        return _quantity(value)
    if shape.type == "int-or-string":
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise _mismatch(value, shape, place)
        return value
    if shape.type == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) and shape.type != "boolean":
        raise _mismatch(value, shape, place)
    if not isinstance(value, _PYTHON_TYPES[shape.type]):
        raise _mismatch(value, shape, place)
    return value


def _quantity(value: Any) -> str:
    text = str(value)
    if isinstance(value, bool | dict | list) or not QUANTITY.fullmatch(text):
        raise TypeMismatch(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    return text


def _mismatch(value: Any, shape: Shape, place: _Place) -> TypeMismatch:
    token = _json_token(value, shape)
    return TypeMismatch(f"json: cannot unmarshal {token} into {place} of type {go_type(shape)}")


def _json_token(value: Any, shape: Shape) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {value}" if shape.type == "integer" else "number"
    return "string" if isinstance(value, str) else "object" if isinstance(value, dict) else "array"


def go_type(shape: Shape) -> str:
    """Return the Go type of a field of this shape, as the decoder's messages name it."""
    if shape.type == "list":
        return "[]" + go_type(shape.item or Shape("any"))
    if shape.type == "map":
        return "map[string]" + go_type(shape.item or Shape("any"))
    if shape.type == "object":
        return shape.go_name
    if shape.type == "int-or-string":
        return "intstr.IntOrString"
    if shape.type == "integer":
        return shape.format or "int64"
    return _GO_TYPES.get(shape.type, shape.type)
