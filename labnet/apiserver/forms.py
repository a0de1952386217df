"""Objects and lists as answers: plain, as a Table, or their metadata alone.

A plain list is spliced together out of the bytes the cache holds; nothing is encoded
again. Tables are made per request, from the columns of ``labnet.api.table``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from labnet.api import table
from labnet.api.meta import JsonObject, Object
from labnet.api.resources import Resource
from labnet.apiserver.accept import YAML, Accepted, Form
from labnet.apiserver.entry import Entry, encode

_PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


def single(
    resource: Resource, entry: Entry, accepted: Accepted, now: datetime, include: str = "Metadata"
) -> bytes:
    """Return one object of the cache in the form accepted."""
    if accepted.form is Form.OBJECT:
        return entry.json(resource)
    return encode(in_form(resource, entry.shown(resource), accepted.form, now, include))


def in_form(
    resource: Resource, obj: Object, form: Form, now: datetime, include: str = "Metadata"
) -> JsonObject:
    """Return one object (in the version of ``resource``) in a form."""
    if form is Form.OBJECT:
        return obj
    if form is Form.PARTIAL:
        return table.partial(obj)
    metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
    return table.table(resource, [obj], now, metadata=metadata, include=include)


def listing(
    resource: Resource,
    entries: Sequence[Entry],
    metadata: Mapping[str, Any],
    accepted: Accepted,
    now: datetime,
    include: str = "Metadata",
) -> bytes:
    """Return a list in the form accepted; ``metadata`` is the list's own."""
    if accepted.form is Form.OBJECT:
        head = {"kind": resource.list_kind, "apiVersion": resource.api_version}
        body = b",".join(entry.json(resource) for entry in entries)
        return b'%b,"metadata":%b,"items":[%b]}' % (encode(head)[:-1], encode(metadata), body)
    objects = [entry.shown(resource) for entry in entries]
    if accepted.form is Form.TABLE:
        made = table.table(resource, objects, now, metadata=metadata, include=include)
        return encode(made)
    return encode(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": dict(metadata),
            "items": [table.partial(obj) for obj in objects],
        }
    )


def row(resource: Resource, obj: Object, now: datetime, include: str, *, columns: bool) -> bytes:
    """Return one object as a Table of one row, as a watch sends it."""
    metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
    made = table.table(resource, [obj], now, metadata=metadata, include=include, columns=columns)
    return encode(made)


def bookmark(resource: Resource, form: Form, revision: int, *, initial_end: bool) -> bytes:
    """Return the object of a BOOKMARK: nothing but where the watch stands."""
    metadata: JsonObject = {"resourceVersion": str(revision), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    if form is Form.TABLE:
        return encode(
            {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": str(revision)},
                "columnDefinitions": [],
                "rows": [{"cells": [], "object": {**_PARTIAL, "metadata": metadata}}],
            }
        )
    if form is Form.PARTIAL:
        return encode({**_PARTIAL, "metadata": metadata})
    named = {"kind": resource.kind, "apiVersion": resource.api_version}
    return encode({**named, "metadata": metadata})


def rendered(body: bytes, accepted_media: str, *, indent: bool) -> bytes:
    """Return JSON as YAML, indented for a person, or as it is."""
    if accepted_media == YAML:
        import yaml

        text: str = yaml.safe_dump(json.loads(body), sort_keys=False, default_flow_style=False)
        return text.encode()
    if indent:
        return json.dumps(json.loads(body), indent=2).encode() + b"\n"
    return body + b"\n"
