"""An object at one revision, and a change of one: encoded once, sent to many.

The bytes of an object's JSON are made when first asked for and kept with it. A watch
event is those bytes in an envelope, already framed as one HTTP chunk, so that telling
three hundred watchers is three hundred sends of the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from labnet.api import convert
from labnet.api.meta import Object
from labnet.api.resources import Resource

_COMPACT = json.JSONEncoder(separators=(",", ":"))


def encode(document: Any) -> bytes:
    """Return ``document`` as compact JSON."""
    return _COMPACT.encode(document).encode()


def chunk(data: bytes) -> bytes:
    """Return ``data`` as one chunk of a chunked HTTP body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(kind: str, document: bytes) -> bytes:
    """Return one watch event (``kind``: ADDED, …) as an HTTP chunk."""
    return chunk(b'{"type":"%b","object":%b}\n' % (kind.encode(), document))


class Entry:
    """One object as stored, ``resourceVersion`` stamped on. The object is never changed."""

    __slots__ = ("_json", "key", "object", "revision")

    def __init__(self, key: str, obj: Object, revision: int) -> None:
        self.key = key
        self.object = obj
        self.revision = revision
        self._json: dict[str, bytes] = {}

    def json(self, resource: Resource) -> bytes:
        """Return the object in the version of ``resource``, as compact JSON."""
        made = self._json.get(resource.api_version)
        if made is None:
            made = self._json[resource.api_version] = encode(convert.shown(resource, self.object))
        return made

    def shown(self, resource: Resource) -> Object:
        """Return the object in the version of ``resource``."""
        return convert.shown(resource, self.object)

    def as_of(self, revision: int) -> Entry:
        """Return the same object stamped with a later revision (its deletion's)."""
        metadata = {**self.object["metadata"], "resourceVersion": str(revision)}
        return Entry(self.key, {**self.object, "metadata": metadata}, revision)


class Change:
    """What happened to one object: ADDED, MODIFIED or DELETED (``entry``: its last state)."""

    __slots__ = ("_frames", "entry", "previous", "type")

    def __init__(self, kind: str, entry: Entry, previous: Entry | None) -> None:
        self.type = kind
        self.entry = entry
        self.previous = previous
        self._frames: dict[tuple[str, ...], bytes] = {}

    def frame(self, key: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
        """Return the bytes kept under ``key``, made by ``make`` the first time."""
        made = self._frames.get(key)
        if made is None:
            made = self._frames[key] = make()
        return made
