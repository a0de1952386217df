"""OpenAPI v2 as protobuf: what kubectl validates a ``kind: List`` with.

A List is no resource, so no path of the v3 documents says that the server would check
its fields; kubectl then checks them itself, against the older document, and asks for
that in one form only: ``openapi.v2.Document`` of google/gnostic (``OpenAPIv2.proto``),
where maps are lists of named pairs and extensions are YAML text. kubectl up to 1.28 asks
for it at every ``apply``, ``kubectl explain --output=plaintext-openapiv2`` still does.

The document is made from the same definitions as v3, one at a time, when somebody first
asks; then its bytes are kept (some 700 kB).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from labnet.api import definitions
from labnet.api.openapi import VERSION
from labnet.api.patch_types import PATCH_TYPES
from labnet.api.resource import Resource
from labnet.api.resources import group_versions, resources_of
from labnet.store.wire import integer, message, octets

CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# What clients ask for; as the type of an answer it is none, for the "@" in it.
_ASKED_FOR = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_EXTENSION = "x-"
# What v3 calls a choice of two types, v2 calls a string.
_STRINGS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "type": "string",
        "format": "int-or-string",
    },
}


@cache
def document() -> bytes:
    """Return the whole document: every definition, and a PATCH for every resource."""
    served = [r for group_version in group_versions() for r in resources_of(*group_version)]
    paths = b"".join(message(2, _path(r)) for r in served if "patch" in r.verbs)
    named = b"".join(message(1, _definition(name, line)) for name, line in _lines())
    return b"".join(
        (
            _text(1, "2.0"),  # swagger
            message(2, _text(1, "Kubernetes") + _text(2, VERSION)),  # info: title, version
            message(8, paths),
            message(9, named),
        )
    )


@cache
def digest() -> str:
    """Return what the ETag says of it."""
    return sha256(document()).hexdigest()[:32].upper()


def accepts(header: str) -> bool:
    """Return whether an Accept header takes this form: all but those that want JSON only."""
    media = [part.partition(";")[0].strip() for part in header.split(",")]
    return not header or not {CONTENT_TYPE, _ASKED_FOR, "*/*"}.isdisjoint(media)


def _lines() -> Iterable[tuple[str, bytes]]:
    return sorted(definitions.lines().items())


def _text(field: int, text: str) -> bytes:
    return octets(field, text.encode())


def _pair(name: str, value: bytes) -> bytes:
    """Return a Named…: one entry of a map."""
    return _text(1, name) + message(2, value)


def _definition(name: str, line: bytes) -> bytes:
    (schema,) = json.loads(b"{" + line + b"}").values()
    if name in _STRINGS:
        schema = {"description": schema.get("description", ""), **_STRINGS[name]}
    return _pair(name, _schema(schema))


def _schema(schema: Mapping[str, Any]) -> bytes:
    """Return a Schema; the field numbers are those of gnostic's message."""
    parts = [
        _text(2, schema.get("format", "")),
        _text(4, schema.get("description", "")),
        *(_text(19, name) for name in schema.get("required", ())),
        _text_list(22, schema.get("type", "")),
        _extensions(31, schema),
    ]
    if "allOf" in schema:  # in v2 a reference may have a description beside it
        name = schema["allOf"][0]["$ref"].rpartition("/")[2]
        parts.append(_text(1, f"#/definitions/{name}"))
    if isinstance(schema.get("additionalProperties"), dict):
        parts.append(message(21, message(1, _schema(schema["additionalProperties"]))))
    if "items" in schema:
        parts.append(message(23, message(1, _schema(schema["items"]))))
    if "properties" in schema:
        own = (message(1, _pair(k, _schema(s))) for k, s in schema["properties"].items())
        parts.append(message(25, b"".join(own)))
    return b"".join(parts)


def _text_list(field: int, text: str) -> bytes:
    """Return a TypeItem: a list, of one type."""
    return message(field, _text(1, text)) if text else b""


def _extensions(field: int, of: Mapping[str, Any]) -> bytes:
    """Return the ``x-…`` of a schema or operation; JSON is YAML too."""
    return b"".join(
        message(field, _pair(name, _text(2, json.dumps(value))))
        for name, value in of.items()
        if name.startswith(_EXTENSION)
    )


def _path(resource: Resource) -> bytes:
    """Return the NamedPathItem of one object's PATCH: kubectl looks for its parameters."""
    root = f"/apis/{resource.group}" if resource.group else "/api"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    address = f"{root}/{resource.version}{scope}/{resource.plural}/{{name}}"
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    operation = b"".join(
        (
            *(_text(7, media) for media in PATCH_TYPES),
            *(message(8, _query(name)) for name in ("dryRun", "fieldManager", "fieldValidation")),
            _extensions(13, {"x-kubernetes-group-version-kind": kind}),
        )
    )
    return _pair(address, message(8, operation))


def _query(name: str) -> bytes:
    """Return a ParametersItem: the parameter ``name`` in the query, a string."""
    sub_schema = _text(2, "query") + _text(4, name) + _text(6, "string") + integer(20, 1)
    return message(1, message(2, message(3, sub_schema)))
