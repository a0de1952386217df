"""managedFields: who wrote which field last.

One entry per writer, operation and version. Whoever changes a field owns it alone;
several may *apply* the same value and own it together. Writes through ``/status``,
``/scale`` and bindings are not tracked: they are many, and nobody applies them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from labnet.api.fields import Path, decode, encode, leaves
from labnet.api.meta import Object, metadata_of
from labnet.clock import rfc3339


@dataclass(frozen=True, slots=True)
class Owner:
    """One entry of managedFields."""

    manager: str
    operation: str  # Update or Apply
    api_version: str
    time: str
    fields: frozenset[Path]
    subresource: str = ""

    def document(self) -> Object:
        """Return the ManagedFieldsEntry."""
        entry = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": encode(self.fields),
        }
        return entry | ({"subresource": self.subresource} if self.subresource else {})

    def is_same(self, other: Owner) -> bool:
        """Whether both entries are of the same writer, writing the same way."""
        return (self.manager, self.operation, self.subresource) == (
            other.manager,
            other.operation,
            other.subresource,
        ) and (self.operation == "Apply" or self.api_version == other.api_version)


def owners(obj: Object) -> list[Owner]:
    """Return who owns what of ``obj``."""
    return [
        Owner(
            entry.get("manager", ""),
            entry.get("operation", "Update"),
            entry.get("apiVersion", ""),
            entry.get("time", ""),
            frozenset(decode(entry.get("fieldsV1"))),
            entry.get("subresource", ""),
        )
        for entry in metadata_of(obj).get("managedFields") or ()
    ]


def set_owners(obj: Object, found: Iterable[Owner]) -> None:
    """Write the entries of those who own something into ``obj``, in place."""
    entries = [owner.document() for owner in found if owner.fields]
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def created(obj: Object, manager: str, now: datetime) -> None:
    """Note, in place, that ``manager`` wrote all of a new object."""
    fields = frozenset(leaves(obj))
    set_owners(obj, [Owner(manager, "Update", obj["apiVersion"], rfc3339(now), fields)])


def updated(old: Object, new: Object, manager: str, now: datetime) -> None:
    """Note, in place, that ``manager`` wrote what differs between ``old`` and ``new``."""
    before, after = leaves(old), leaves(new)
    changed = {p for p, value in after.items() if p not in before or before[p] != value}
    removed = before.keys() - after.keys()
    known = owners(old)
    if not changed and not removed:
        set_owners(new, known)
        return
    me = Owner(manager, "Update", new["apiVersion"], rfc3339(now), frozenset(changed))
    mine = next((o for o in known if o.is_same(me)), None)
    if mine is not None:
        me = replace(me, fields=(mine.fields - removed) | changed)
    others = [replace(o, fields=o.fields - removed - changed) for o in known if o is not mine]
    set_owners(new, [*others, me])
