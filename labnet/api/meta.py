"""Object metadata: identity, age, generation, and the form objects are stored in.

``uid`` tells two objects of one name apart, ``generation`` counts changes of what is
*wanted* (never of status or labels), ``resourceVersion`` is the store's revision and is
never inside the stored bytes: it is stamped on when they are read.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from labnet.api.resource import Resource
from labnet.api.status import bad_request

JsonObject = dict[str, Any]
Object = dict[str, Any]  # a Kubernetes object as JSON has it

NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words by accident
_LONGEST_BASE = 58  # a generateName is cut so that name and suffix fit a DNS label


class Chooser(Protocol):
    """Where arbitrary choices come from; tests hand in a predictable one."""

    def uid(self) -> str:
        """Return a new random UUID as text."""

    def suffix(self) -> str:
        """Return five of ``NAME_LETTERS``, for generateName."""


def stored_bytes(obj: Object) -> bytes:
    """Return ``obj`` as it goes into the store: compact JSON without resourceVersion."""
    metadata = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    return json.dumps({**obj, "metadata": metadata}, separators=(",", ":")).encode()


def from_store(value: bytes, revision: int) -> Object:
    """Return the object that ``value`` holds, with its resourceVersion stamped on."""
    obj: Object = json.loads(value)
    obj["metadata"]["resourceVersion"] = str(revision)
    return obj


def metadata_of(obj: Object) -> Object:
    """Return ``obj``'s metadata, for reading; {} where it has none."""
    return obj.get("metadata") or {}


def namespace_of(resource: Resource, obj: Object, namespace: str) -> None:
    """Set or check ``metadata.namespace`` against the URL's; raises 400 ApiError."""
    metadata = obj.setdefault("metadata", {})
    said = metadata.get("namespace", "")
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    if said not in ("", namespace):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def generate_name(metadata: Object, chooser: Chooser) -> None:
    """Give a nameless object with ``generateName`` a name."""
    base = metadata.get("generateName")
    if base and not metadata.get("name"):
        metadata["name"] = base[:_LONGEST_BASE] + chooser.suffix()
