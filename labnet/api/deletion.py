"""Deleting: at once, after a grace period, or when the last finalizer is done.

DELETE on a running pod only sets ``deletionTimestamp``; the kubelet stops the
containers and deletes it again with grace 0. An object with finalizers likewise waits
until they are all removed; the update that removes the last one deletes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from labnet.api.meta import Object
from labnet.api.resources import Resource


@dataclass(frozen=True, slots=True)
class Deletion:
    """What DELETE does: remove the key, or write ``object`` and wait."""

    object: Object  # as it is afterwards (to be answered, or stored when not ``remove``)
    remove: bool


def deletion(resource: Resource, obj: Object, options: Object, now: datetime) -> Deletion:
    """Return what deleting ``obj`` with these DeleteOptions means.

    Raises ApiError 409 for a failed precondition (uid, resourceVersion).
    """
    raise NotImplementedError


def finished(obj: Object) -> bool:
    """Whether an updated object is now to be removed: marked for deletion, nothing left."""
    raise NotImplementedError
