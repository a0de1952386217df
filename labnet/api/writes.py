"""The way of a write, from what the client sent to what is stored: one pure function each.

Objects go in and come out in the version the client speaks (``write.resource``);
``stored`` and ``shown`` turn them into and from what the store keeps. Allocation of
cluster IPs and node ports happens between ``create`` and the store, in the API server,
because only it can do so transactionally; ``validation`` accepts their absence.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from labnet.api.meta import Chooser, Object
from labnet.api.resources import Resource


@dataclass(frozen=True, slots=True)
class Write:
    """One request to change one object: on what, by whom, when."""

    resource: Resource
    manager: str  # fieldManager, or the User-Agent up to the first "/"
    now: datetime
    chooser: Chooser
    subresource: str = ""  # "", "status", "scale", …
    namespace: str = ""  # from the URL
    name: str = ""  # from the URL; "" for create


def create(write: Write, body: Object) -> Object:
    """Return the new object: defaulted, named, stamped, valid. Raises ApiError 400, 422."""
    raise NotImplementedError


def update(write: Write, old: Object, body: Object) -> Object:
    """Return what replaces ``old`` (main resource, ``status`` or ``scale``).

    The very object ``old`` when nothing changes: then do not write. Raises ApiError 400,
    409 (resourceVersion or uid in ``body`` differ), 422.
    """
    raise NotImplementedError


def stored(resource: Resource, obj: Object) -> Object:
    """Return ``obj`` in the version the store keeps."""
    raise NotImplementedError


def shown(resource: Resource, obj: Object) -> Object:
    """Return a stored object in the version of ``resource``; unchanged where they agree."""
    raise NotImplementedError
