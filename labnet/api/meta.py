"""Object metadata: identity, age, generation, and who wrote which field.

``uid`` tells two objects of one name apart, ``generation`` counts changes of what is
*wanted* (never of status or labels), ``resourceVersion`` is the store's revision and is
never inside the stored bytes: it is stamped on when they are read.
"""

from __future__ import annotations

from typing import Any, Protocol

from labnet.api.resources import Resource

JsonObject = dict[str, Any]
Object = dict[str, Any]  # a Kubernetes object as JSON has it

NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words by accident


class Chooser(Protocol):
    """Where arbitrary choices come from; tests hand in a predictable one."""

    def uid(self) -> str:
        """Return a new random UUID as text."""

    def suffix(self) -> str:
        """Return five of ``NAME_LETTERS``, for generateName."""


def stored_bytes(obj: Object) -> bytes:
    """Return ``obj`` as it goes into the store: compact JSON without resourceVersion."""
    raise NotImplementedError


def from_store(value: bytes, revision: int) -> Object:
    """Return the object that ``value`` holds, with its resourceVersion stamped on."""
    raise NotImplementedError


def namespace_of(resource: Resource, obj: Object, namespace: str) -> None:
    """Set or check ``metadata.namespace`` against the URL's; raises 400 ApiError."""
    raise NotImplementedError
