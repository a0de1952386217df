"""The schema as the write path sees it: what may stand where, and how lists merge.

A :class:`Shape` is one place in an object. Of the OpenAPI schema it keeps what decoding,
patching and field ownership need: types, field names, and the extensions that say a
list is a map in disguise (``x-kubernetes-patch-merge-key``, ``x-kubernetes-list-map-keys``).
Definitions are parsed when first asked for, then kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from labnet.api import definitions

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SPECIAL = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    _META + "FieldsV1": "any",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What may stand in one place of an object."""

    type: str  # object, map, list, string, integer, number, boolean, quantity, int-or-string, any
    format: str = ""
    ref: str = ""  # the definition that has the fields
    own: Mapping[str, Shape] = field(default_factory=dict)
    item: Shape | None = None  # of a list, or of a map's values
    strategies: frozenset[str] = frozenset()  # merge, retainKeys, replace
    merge_key: str = ""  # strategic merge patch: identifies an element
    list_type: str = ""  # server-side apply: atomic, set, map
    map_keys: tuple[str, ...] = ()  # server-side apply: identify an element
    atomic: bool = False  # x-kubernetes-map-type: owned as a whole

    @property
    def fields(self) -> Mapping[str, Shape]:
        """The fields an object here may have."""
        return definition(self.ref).own if self.ref else self.own

    @property
    def go_name(self) -> str:
        """The Go type's name, for messages: ``v1.PodSpec``."""
        return ".".join(self.ref.split(".")[-2:])


ANY = Shape("any")


@cache
def definition(name: str) -> Shape:
    """Return the shape that the definition ``name`` describes."""
    line = definitions.lines()[name]
    (described,) = json.loads(b"{" + line + b"}").values()
    if name in _SPECIAL:
        return Shape(_SPECIAL[name])
    return _shape(described)


@cache
def shape_of(api_version: str, kind: str) -> Shape | None:
    """Return the shape of a kind that labnet serves or takes, None for another.

    The kinds of subresources, DeleteOptions and Status are known too.
    """
    for name in (definitions.definition_name(api_version, kind), _META + kind):
        if name in definitions.lines():
            return Shape("object", ref=name)
    return None


def _shape(schema: Mapping[str, Any]) -> Shape:
    extras: dict[str, Any] = {
        "strategies": frozenset(filter(None, schema.get(_X + "patch-strategy", "").split(","))),
        "merge_key": schema.get(_X + "patch-merge-key", ""),
        "list_type": schema.get(_X + "list-type", ""),
        "map_keys": tuple(schema.get(_X + "list-map-keys", ())),
        "atomic": schema.get(_X + "map-type") == "atomic",
    }
    if "allOf" in schema:
        return _reference(schema["allOf"][0]["$ref"].rpartition("/")[2], extras)
    kind = schema.get("type", "any")
    if kind == "array":
        return Shape("list", item=_shape(schema["items"]), **extras)
    if "properties" in schema:
        own = {name: _shape(s) for name, s in schema["properties"].items()}
        return Shape("object", own=own, **extras)
    if isinstance(schema.get("additionalProperties"), dict):
        return Shape("map", item=_shape(schema["additionalProperties"]), **extras)
    if kind == "object":  # no properties: an empty struct
        return Shape("object", **extras)
    return Shape(kind, format=schema.get("format", ""), **extras)


def _reference(name: str, extras: dict[str, Any]) -> Shape:
    target = definition(name)
    if target.type != "object":
        return Shape(target.type, format=target.format, item=target.item, **extras)
    extras["atomic"] = extras["atomic"] or target.atomic
    return Shape("object", ref=name, **extras)


_X = "x-kubernetes-"
