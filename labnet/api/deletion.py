"""Deleting: at once, after a grace period, or when the last finalizer is done.

DELETE on a running pod only sets ``deletionTimestamp``; the kubelet stops the
containers and deletes it again with grace 0. An object with finalizers likewise waits
until they are all removed; the update that removes the last one deletes it. A namespace
waits for its ``spec.finalizers``: the namespace controller empties it first.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta

from labnet.api.meta import Object, metadata_of
from labnet.api.resource import Resource
from labnet.api.status import bad_request, conflict, forbidden
from labnet.clock import parse_rfc3339, rfc3339

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_POLICIES = {"Foreground": FOREGROUND, "Orphan": ORPHAN, "Background": ""}
_DEFAULT_GRACE = 30
_IMMORTAL = ("default", "kube-system", "kube-public")  # admission plugin NamespaceLifecycle


@dataclass(frozen=True, slots=True)
class Deletion:
    """What DELETE does: remove the key, or write ``object`` and wait."""

    object: Object  # as it is afterwards (to be answered, or stored when not ``remove``)
    remove: bool


def deletion(resource: Resource, obj: Object, options: Object, now: datetime) -> Deletion:
    """Return what deleting ``obj`` with these DeleteOptions means.

    ``object`` is ``obj`` itself when nothing changes: it is being deleted already.
    Raises ApiError 403 for a namespace that the cluster cannot be without, 409 for a
    failed precondition (uid, resourceVersion).
    """
    _mortal(resource, obj)
    _preconditions(resource, obj, options)
    new = deepcopy(obj)
    metadata = new["metadata"]
    grace = _grace(resource, obj, options)
    finalizers = _finalizers(metadata, options)
    if finalizers != (metadata.get("finalizers") or []):
        metadata["finalizers"] = finalizers
    waits = grace > 0 or bool(finalizers) or _emptying(resource, obj)
    if not waits:
        return Deletion(new, remove=True)
    _mark(metadata, grace, now)
    if resource.kind == "Namespace":
        new["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return Deletion(obj if new == obj else new, remove=False)


def _mortal(resource: Resource, obj: Object) -> None:
    name = metadata_of(obj).get("name", "")
    if resource.kind == "Namespace" and name in _IMMORTAL:
        raise forbidden("", resource.plural, name, "this namespace may not be deleted")


def _preconditions(resource: Resource, obj: Object, options: Object) -> None:
    wanted = options.get("preconditions") or {}
    metadata = metadata_of(obj)
    for name, called in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        value, actual = wanted.get(name), metadata.get(name, "")
        if value is not None and value != actual:
            why = (
                f"Precondition failed: {called} in precondition: {value}, "
                f"{called} in object meta: {actual}"
            )
            raise conflict(resource.group, resource.plural, metadata.get("name", ""), why)


def _grace(resource: Resource, obj: Object, options: Object) -> int:
    """Return the seconds to wait; only a pod that a kubelet looks after waits at all."""
    if not resource.graceful:
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    if asked is None:
        asked = spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE)
    asked = 1 if asked < 0 else int(asked)
    running = metadata_of(obj).get("deletionGracePeriodSeconds")
    return asked if running is None else min(asked, running)  # it may be cut, never lengthened


def _finalizers(metadata: Object, options: Object) -> list[str]:
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    current = list(metadata.get("finalizers") or ())
    if policy is None:
        return current
    if policy not in _POLICIES:
        raise bad_request(f'invalid propagationPolicy "{policy}"')
    kept = [f for f in current if f not in (FOREGROUND, ORPHAN)]
    return [*kept, _POLICIES[policy]] if _POLICIES[policy] else kept


def _emptying(resource: Resource, obj: Object) -> bool:
    return resource.kind == "Namespace" and bool((obj.get("spec") or {}).get("finalizers"))


def _mark(metadata: Object, grace: int, now: datetime) -> None:
    """Set when the object is to be gone: counted from the first request to delete it."""
    since = now
    if metadata.get("deletionTimestamp"):
        before = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        since = parse_rfc3339(metadata["deletionTimestamp"]) - before
    elif "generation" in metadata:
        metadata["generation"] += 1
    metadata["deletionTimestamp"] = rfc3339(since + timedelta(seconds=grace))
    metadata["deletionGracePeriodSeconds"] = grace


def finished(obj: Object) -> bool:
    """Whether an updated object is now to be removed: marked for deletion, nothing left."""
    metadata = metadata_of(obj)
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if obj.get("kind") == "Namespace":
        return not (obj.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")
