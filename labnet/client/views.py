"""How a loop reads objects: ownership, conditions, and what state a pod is in.

The words are Kubernetes': a pod is *active* while it may still do its work, *ready*
when its Ready condition says so, *available* when it has been ready long enough. The
*controller* of an object is the one owner that manages it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from labnet.api.meta import Object
from labnet.clock import parse_rfc3339

Obj = Mapping[str, Any]
Key = tuple[str, str]  # (namespace, name)


def key_of(obj: Obj) -> Key:
    """Return the namespace ("" for none) and the name."""
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def uid_of(obj: Obj) -> str:
    """Return the uid."""
    return str(obj["metadata"]["uid"])


def is_deleting(obj: Obj) -> bool:
    """Whether somebody has asked for it to be deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def controller_of(obj: Obj) -> Object | None:
    """Return the ownerReference of the controller, or None."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: Object = owner
            return found
    return None


def is_controlled_by(obj: Obj, owner: Obj) -> bool:
    """Whether ``owner`` is the controller of ``obj``."""
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == uid_of(owner)


def controller_reference(owner: Obj) -> Object:
    """Return the ownerReference that makes ``owner`` the controller."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def condition(obj: Obj, kind: str) -> Object | None:
    """Return the condition ``kind`` of an object's status, or None."""
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry["type"] == kind:
            found: Object = entry
            return found
    return None


def is_true(obj: Obj, kind: str) -> bool:
    """Whether the condition ``kind`` is True."""
    entry = condition(obj, kind)
    return entry is not None and entry["status"] == "True"


def phase(pod: Obj) -> str:
    """Return Pending, Running, Succeeded, Failed or Unknown."""
    return (pod.get("status") or {}).get("phase") or "Pending"


def has_ended(pod: Obj) -> bool:
    """Whether all its containers have ended for good."""
    return phase(pod) in ("Succeeded", "Failed")


def is_active(pod: Obj) -> bool:
    """Whether the pod counts for its controller: neither ended nor being deleted."""
    return not has_ended(pod) and not is_deleting(pod)


def is_ready(pod: Obj) -> bool:
    """Whether traffic may be sent to the pod."""
    return is_true(pod, "Ready")


def seconds_until_available(pod: Obj, min_ready: int, now: datetime) -> float | None:
    """Return 0 for an available pod, the seconds left for a ready one, None otherwise."""
    if not is_ready(pod):
        return None
    since = (condition(pod, "Ready") or {}).get("lastTransitionTime")
    if not min_ready or not since:
        return 0.0
    return max(0.0, min_ready - (now - parse_rfc3339(since)).total_seconds())


def tolerates(toleration: Obj, taint: Obj) -> bool:
    """Whether a pod's toleration is for a node's taint.

    A missing key or effect means any, a missing operator Equal.
    """
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("value", "") == taint.get("value", ""))
