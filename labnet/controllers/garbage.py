"""Garbage collection: what has lost its last owner goes too.

An object's ``ownerReferences`` name who it exists for, by uid. When all of them are
gone it is deleted (that is how a deleted Deployment takes its ReplicaSets, and they
their pods). Two finalizers change that for one deletion: with ``foregroundDeletion``
the owner stays until its dependents are gone, with ``orphan`` they lose the reference
and stay.

An owner counts as gone only when the API server itself says so: a mirror may lag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.api.resources import by_kind
from labnet.client.api import Api
from labnet.client.kinds import (
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    LEASES,
    NODES,
    PODS,
    REPLICA_SETS,
    SERVICES,
)
from labnet.client.views import Key, is_deleting, key_of, uid_of
from labnet.controllers.loop import KeysOf, Mirrors
from labnet.controllers.writes import Outcome, Patch, Say, Write, remove
from labnet.errors import NotFound

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
COLLECTED = (
    PODS,
    REPLICA_SETS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    SERVICES,
    NODES,
    LEASES,
)


@dataclass(frozen=True, slots=True)
class Owned:
    """A dependent: its kind and itself."""

    resource: Resource
    object: Object


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An object, its dependents, and which of its owners are gone or leaving."""

    resource: Resource
    object: Object
    dependents: tuple[Owned, ...]
    gone: frozenset[str]  # uids of owners that do not exist any more
    leaving: frozenset[str]  # uids of owners that wait for their dependents to go


def reconcile(snapshot: Snapshot) -> Outcome:
    """Return what becomes of an object by its owners, and of its dependents by its own end."""
    obj = snapshot.object
    owners = [o["uid"] for o in obj["metadata"].get("ownerReferences") or ()]
    finalizers = obj["metadata"].get("finalizers") or []
    if is_deleting(obj):
        if ORPHAN in finalizers:
            return Outcome((*_orphaned(snapshot), _without(snapshot, ORPHAN)))
        if FOREGROUND in finalizers:
            return Outcome(_ended(snapshot))
        return Outcome()
    staying = [uid for uid in owners if uid not in snapshot.gone | snapshot.leaving]
    if owners and not staying:
        if snapshot.leaving.intersection(owners):
            return Outcome((_before_owner(Owned(snapshot.resource, obj)),))
        return Outcome((remove(snapshot.resource, obj),))
    if snapshot.gone.intersection(owners):
        return Outcome((_disowned(Owned(snapshot.resource, obj), snapshot.gone),))
    return Outcome()


def _ended(snapshot: Snapshot) -> tuple[Write, ...]:
    """Return the deletions of dependents that live; the owner may go when none is left."""
    if not snapshot.dependents:
        return (_without(snapshot, FOREGROUND),)
    living = (d for d in snapshot.dependents if not is_deleting(d.object))
    return tuple(map(_before_owner, living))


def _before_owner(owned: Owned) -> Write:
    """Return the deletion of a dependent whose own dependents have to go before it.

    Pods have none: they need not wait for the garbage collector.
    """
    wait = "Background" if owned.resource == PODS else "Foreground"
    return replace(remove(owned.resource, owned.object), propagation=wait)


def _orphaned(snapshot: Snapshot) -> list[Write]:
    mine = frozenset((uid_of(snapshot.object),))
    return [_disowned(owned, mine) for owned in snapshot.dependents]


def _disowned(owned: Owned, owners: frozenset[str]) -> Write:
    """Return the removal of some owners from an object."""
    metadata = owned.object["metadata"]
    kept = [o for o in metadata["ownerReferences"] if o["uid"] not in owners]
    patch = {"metadata": {"uid": metadata["uid"], "ownerReferences": kept or None}}
    return Patch(owned.resource, *key_of(owned.object), patch)


def _without(snapshot: Snapshot, finalizer: str) -> Write:
    metadata = snapshot.object["metadata"]
    kept = [f for f in metadata["finalizers"] if f != finalizer]
    changed = {"finalizers": kept or None, "resourceVersion": metadata["resourceVersion"]}
    return Patch(snapshot.resource, *key_of(snapshot.object), {"metadata": changed})


class Garbage:
    """The reconciler's eyes: keys are (namespace, "plural/name")."""

    name = "garbage-collector-controller"

    def __init__(
        self, mirrors: Mirrors, api: Api, collected: Sequence[Resource] = COLLECTED
    ) -> None:
        self._api = api
        self._kinds = {r.plural: r for r in collected}
        self._mirrors = {r.plural: mirrors.of(r) for r in collected}
        self._dependents: dict[str, set[Key]] = {}  # owner's uid -> keys

    def watched(self) -> Mapping[Resource, KeysOf]:
        """Every collected kind."""
        return {r: self._concerned(r) for r in self._kinds.values()}

    def _concerned(self, resource: Resource) -> Callable[[Object], Iterable[Key]]:
        def keys(obj: Object) -> Iterable[Key]:
            """The object itself if it has owners or waits; its owners and dependents if it goes."""
            namespace, name = key_of(obj)
            key = (namespace, f"{resource.plural}/{name}")
            metadata = obj["metadata"]
            owners = metadata.get("ownerReferences") or ()
            exists = self._mirrors[resource.plural].get(name, namespace) is not None
            for owner in owners:
                known = self._dependents.setdefault(owner["uid"], set())
                (known.add if exists else known.discard)(key)
            if exists:
                return (key,) if owners or metadata.get("finalizers") else ()
            return (*self._dependents.pop(uid_of(obj), ()), *self._waiting(namespace, owners))

        return keys

    def _waiting(self, namespace: str, owners: Iterable[Object]) -> list[Key]:
        """Return the owners that may be waiting for a dependent that has just gone."""
        found = []
        for owner in owners:
            resource = by_kind(owner["apiVersion"], owner["kind"])
            if resource is not None and resource.plural in self._kinds:
                scope = namespace if resource.namespaced else ""
                found.append((scope, f"{resource.plural}/{owner['name']}"))
        return found

    def look(self, key: Key) -> Outcome:
        """Decide about one object."""
        obj, resource = self._object(key)
        if obj is None:
            return Outcome()
        gone, leaving = set[str](), set[str]()
        for owner in obj["metadata"].get("ownerReferences") or ():
            found = self._owner(owner, key[0])
            if found is None:
                gone.add(owner["uid"])
            elif is_deleting(found) and FOREGROUND in (found["metadata"].get("finalizers") or ()):
                leaving.add(owner["uid"])
        if gone and (obj := self._fresh(resource, obj)) is None:
            return Outcome()
        dependents = tuple(self._owned_by(uid_of(obj))) if is_deleting(obj) else ()
        return reconcile(Snapshot(resource, obj, dependents, frozenset(gone), frozenset(leaving)))

    def _fresh(self, resource: Resource, obj: Object) -> Object | None:
        """Return ``obj`` as the API server has it: it may have been orphaned or adopted."""
        try:
            return self._api.get(resource, key_of(obj)[1], key_of(obj)[0])
        except NotFound:
            return None

    def _object(self, key: Key) -> tuple[Object | None, Resource]:
        plural, name = key[1].split("/", 1)
        return self._mirrors[plural].get(name, key[0]), self._kinds[plural]

    def _owned_by(self, uid: str) -> Iterable[Owned]:
        for key in tuple(self._dependents.get(uid, ())):
            obj, resource = self._object(key)
            if obj is not None:
                yield Owned(resource, obj)

    def _owner(self, reference: Object, namespace: str) -> Object | None:
        """Return the owner a reference means; None when the API server knows of none.

        A kind nobody here knows is taken to exist: {"metadata": {}}.
        """
        resource = by_kind(reference["apiVersion"], reference["kind"])
        if resource is None:
            return {"metadata": {}}
        scope = namespace if resource.namespaced else ""
        mirror = self._mirrors.get(resource.plural)
        found = mirror.get(reference["name"], scope) if mirror else None
        if found is None or uid_of(found) != reference["uid"]:
            try:
                found = self._api.get(resource, reference["name"], scope)
            except NotFound:
                return None
        return found if uid_of(found) == reference["uid"] else None

    def wrote(self, key: Key, write: Write, answer: Object | None) -> Say | None:
        """Nothing to remember."""
        return None
