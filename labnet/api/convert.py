"""Versions: the same object under another apiVersion.

The store keeps one version of each kind, the *hub*; a request in another version is
converted on the way in and on the way out. ``extensions/v1beta1`` and ``apps/v1`` differ
in their defaults alone, and those are filled in before conversion, so only the name
changes. ``events.k8s.io/v1`` Events call a few fields differently than core Events.
"""

from __future__ import annotations

from labnet.api.meta import Object
from labnet.api.resource import Resource

# events.k8s.io/v1 → v1
_EVENT_FIELDS = {
    "note": "message",
    "regarding": "involvedObject",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}


def stored(resource: Resource, obj: Object) -> Object:
    """Return ``obj`` in the version the store keeps."""
    if not resource.hub:
        return obj
    if resource.kind == "Event":
        obj = _renamed(obj, _EVENT_FIELDS)
    return {**obj, "apiVersion": resource.hub}


def shown(resource: Resource, obj: Object) -> Object:
    """Return a stored object in the version of ``resource``; unchanged where they agree."""
    if not resource.hub:
        return obj
    if resource.kind == "Event":
        obj = _renamed(obj, {old: new for new, old in _EVENT_FIELDS.items()})
    return {**obj, "apiVersion": resource.api_version}


def _renamed(obj: Object, names: dict[str, str]) -> Object:
    return {names.get(key, key): value for key, value in obj.items()}
