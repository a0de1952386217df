"""The columns of the small kinds: events, ConfigMaps, volumes, quotas, leases."""

from __future__ import annotations

from datetime import datetime

from labnet.api.columns import AGE, CREATED, NAME, Column, at, path
from labnet.api.duration import UNKNOWN, since
from labnet.api.meta import Object


def _data(obj: Object, _: datetime) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


DATA = Column("Data", _data, type="integer", description="How many keys there are.")
CONFIG_MAP = (NAME, DATA, AGE)
SECRET = (NAME, Column("Type", path("type")), DATA, AGE)
SERVICE_ACCOUNT = (
    NAME,
    Column("Secrets", lambda obj, _: len(obj.get("secrets") or ()), type="integer"),
    AGE,
)
NAMESPACE = (NAME, Column("Status", path("status", "phase")), AGE)
LEASE = (NAME, Column("Holder", path("spec", "holderIdentity")), AGE)
LIMIT_RANGE = (NAME, CREATED)


def _first_seen(event: Object, now: datetime) -> str:
    first = since(event.get("firstTimestamp"), now)
    return since(event.get("eventTime"), now) if first == UNKNOWN else first


def _last_seen(event: Object, now: datetime) -> str:
    observed = at(event, "series", "lastObservedTime") or event.get("lastTimestamp")
    return since(observed, now) if observed else _first_seen(event, now)


def _event_count(event: Object, _: datetime) -> int:
    found: int = at(event, "series", "count") or event.get("count") or 1
    return found


def _about(event: Object, _: datetime) -> str:
    kind = str(at(event, "involvedObject", "kind") or "").lower()
    name = at(event, "involvedObject", "name")
    return f"{kind}/{name}" if name else kind


def _source(event: Object, _: datetime) -> str:
    component = at(event, "source", "component") or event.get("reportingComponent") or ""
    host = at(event, "source", "host") or event.get("reportingInstance") or ""
    return ", ".join(filter(None, (component, host)))


def _message(event: Object, _: datetime) -> str:
    return str(event.get("message") or "").strip()


EVENT = (
    Column("Last Seen", _last_seen),
    Column("Type", path("type")),
    Column("Reason", path("reason")),
    Column("Object", _about),
    Column("Subobject", path("involvedObject", "fieldPath"), priority=1),
    Column("Source", _source, priority=1),
    Column("Message", _message),
    Column("First Seen", _first_seen, priority=1),
    Column("Count", _event_count, type="integer", priority=1),
    Column("Name", path("metadata", "name"), priority=1, format="name"),
)

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _claim_phase(claim: Object, _: datetime) -> str:
    if at(claim, "metadata", "deletionTimestamp"):
        return "Terminating"
    return at(claim, "status", "phase") or ""


def _claimed(volume: Object, _: datetime) -> str:
    claim = at(volume, "spec", "claimRef")
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim else ""


_CLASS = Column("StorageClass", path("spec", "storageClassName"))
_ATTRIBUTES = Column(
    "VolumeAttributesClass", path("spec", "volumeAttributesClassName", default="<unset>")
)
_VOLUME_MODE = Column("VolumeMode", path("spec", "volumeMode", default="<unset>"), priority=1)
CLAIM = (
    NAME,
    Column("Status", _claim_phase),
    Column("Volume", path("spec", "volumeName")),
    Column("Capacity", path("status", "capacity", "storage")),
    Column("Access Modes", lambda o, _: _modes(at(o, "status", "accessModes"))),
    _CLASS,
    _ATTRIBUTES,
    AGE,
    _VOLUME_MODE,
)
VOLUME = (
    NAME,
    Column("Capacity", path("spec", "capacity", "storage")),
    Column("Access Modes", lambda o, _: _modes(at(o, "spec", "accessModes"))),
    Column("Reclaim Policy", path("spec", "persistentVolumeReclaimPolicy")),
    Column("Status", _claim_phase),
    Column("Claim", _claimed),
    _CLASS,
    _ATTRIBUTES,
    Column("Reason", path("status", "reason")),
    AGE,
    _VOLUME_MODE,
)


def _quota(quota: Object, limits: bool) -> str:
    """Return ``pods: 1/2`` for each resource that is capped; used of allowed."""
    hard, used = at(quota, "status", "hard") or {}, at(quota, "status", "used") or {}
    hard = hard or at(quota, "spec", "hard") or {}
    names = sorted(n for n in hard if n.startswith("limits") == limits)
    return ", ".join(f"{n}: {used.get(n, '0')}/{hard[n]}" for n in names)


QUOTA = (
    NAME,
    Column("Request", lambda quota, _: _quota(quota, False)),
    Column("Limit", lambda quota, _: _quota(quota, True)),
    AGE,
)
