"""What the in-memory API server makes of objects: new, changed, marked for deletion.

The rules of an API server in small, as pure functions; :mod:`labnet.client.fake` keeps
the objects. They neither default nor validate.
"""

from __future__ import annotations

import copy
import json
from typing import Any
from uuid import UUID

from labnet.api.meta import NAME_LETTERS, Object
from labnet.api.resource import Resource


def made(resource: Resource, obj: Object, number: int, now: str) -> Object:
    """Return a new object with everything the server adds to it."""
    new: Object = json.loads(json.dumps(obj))
    new.setdefault("apiVersion", resource.api_version)
    new.setdefault("kind", resource.kind)
    metadata = new["metadata"]
    if not metadata.get("name"):
        metadata["name"] = metadata["generateName"] + _suffix(number)
    if resource.namespaced:
        metadata.setdefault("namespace", "default")
    metadata |= {"uid": str(UUID(int=number)), "creationTimestamp": now}
    if resource.generation:
        metadata["generation"] = 1
    if resource.kind == "Pod":
        new.setdefault("status", {"phase": "Pending"})
    if resource.kind == "Namespace":
        new.setdefault("spec", {"finalizers": ["kubernetes"]})
        new.setdefault("status", {"phase": "Active"})
    return new


def _suffix(number: int) -> str:
    letters = []
    for _ in range(5):
        number, digit = divmod(number, len(NAME_LETTERS))
        letters.append(NAME_LETTERS[digit])
    return "".join(reversed(letters))


_SERVER_OWNED = ("uid", "creationTimestamp", "generation", "resourceVersion")


def kept_apart(resource: Resource, old: Object, new: Object, subresource: str) -> Object:
    """Keep what this write may not touch: the status, or everything but it."""
    new = copy.deepcopy(new)
    if subresource == "status":
        return {**old, "status": new.get("status", {})}
    if subresource == "finalize":
        return {**old, "spec": new["spec"]}
    fixed = {key: old["metadata"][key] for key in _SERVER_OWNED if key in old["metadata"]}
    new["metadata"] |= fixed
    if resource.generation and new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    if resource.has_status:
        new.pop("status", None)
        new |= {"status": old["status"]} if "status" in old else {}
    return new


def grace(resource: Resource, obj: Object, asked: int | None) -> int:
    """Seconds a deletion waits for the kubelet: only pods on a node have one."""
    if not resource.graceful or not obj["spec"].get("nodeName"):
        return 0
    wanted: int = obj["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked
    return wanted


def marked(old: Object, grace: int, propagation: str, now: str) -> Object:
    """Return ``old`` marked for deletion."""
    new: Object = copy.deepcopy(old)
    metadata = new["metadata"]
    extra = {"Foreground": ["foregroundDeletion"], "Orphan": ["orphan"]}.get(propagation, [])
    finalizers = [*metadata.get("finalizers", []), *extra]
    if finalizers:
        metadata["finalizers"] = finalizers
    metadata.setdefault("deletionTimestamp", now)
    if old["kind"] == "Pod":
        metadata["deletionGracePeriodSeconds"] = grace
    if old["kind"] == "Namespace":
        new["status"] = {**new.get("status", {}), "phase": "Terminating"}
    return new


def finished(obj: Object) -> bool:
    """Whether nothing holds a deleted object any more."""
    metadata = obj["metadata"]
    held = metadata.get("finalizers")
    if obj["kind"] == "Namespace":
        held = held or obj.get("spec", {}).get("finalizers")
    waits = metadata.get("deletionGracePeriodSeconds", 0) > 0
    return "deletionTimestamp" in metadata and not held and not waits


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386: a partial object in which null deletes."""
    if not isinstance(patch, dict):
        return patch
    new = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merged(new.get(key), value)
    return new
