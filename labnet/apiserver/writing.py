"""Writes: decided by ``labnet.api``, stored in one transaction, tried again if overtaken.

Nothing is locked. A write reads an object at some revision, computes what it becomes,
and stores it under the condition that the object still is at that revision. If somebody
was faster, a client that named a ``resourceVersion`` gets 409 and has to look again;
for all others the server does the looking itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random

from labnet.api import deletion, meta, writes
from labnet.api.codec import FieldValidation
from labnet.api.meta import Chooser, Object, metadata_of
from labnet.api.resources import Resource, find
from labnet.api.status import ApiError, already_exists, conflict, forbidden, not_found
from labnet.apiserver.cache import WatchCache
from labnet.apiserver.entry import Entry
from labnet.apiserver.eventleases import EventLeases
from labnet.apiserver.reservations import Claim, Ranges, claim, held
from labnet.apiserver.target import Target
from labnet.store.model import Delete, ModRevisionIs, Put, Store

ATTEMPTS = 16  # how often the server itself looks again


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes, when, and whether only to see what would happen."""

    manager: str
    now: datetime
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """An object as it is after a write; ``gone``: that write removed it."""

    entry: Entry
    gone: bool = False


class Writing:
    """Writes for requests."""

    def __init__(
        self,
        store: Store,
        cache: WatchCache,
        ranges: Ranges,
        leases: EventLeases,
        chooser: Chooser,
        random: Random,
    ) -> None:
        self._store = store
        self._cache = cache
        self._ranges = ranges
        self._leases = leases
        self._chooser = chooser
        self._random = random

    def create(self, target: Target, body: Object, author: Author) -> Written:
        """Store a new object. Raises ApiError 400, 403, 404, 409, 422."""
        resource = target.resource
        self._check_namespace(target, body)
        for _ in range(ATTEMPTS):
            new = writes.create(self._write(target, author), body)
            name = new["metadata"]["name"]
            key = resource.key(target.namespace, name)
            if self._cache.get(key) is not None and not metadata_of(body).get("generateName"):
                raise already_exists(resource.group, resource.plural, name)
            claimed = self._claim(resource, new, None)
            written = self._store_it(resource, key, 0, new, claimed, author)
            if written is not None:
                return written
        raise already_exists(resource.group, resource.plural, metadata_of(body).get("name", ""))

    def update(self, target: Target, change: Callable[[Object], Object], author: Author) -> Written:
        """Store what ``change`` makes of the object as it is (in the version of the target).

        ``change`` returns the body a PUT would have; it is called again after a conflict.
        Raises ApiError 404, 409, 422, and whatever ``change`` raises.
        """
        write = self._write(target, author)

        def changed(old: Object) -> Object:
            return writes.update(write, old, change(old))

        return self.replace(target, changed, author)

    def replace(
        self, target: Target, change: Callable[[Object], Object], author: Author
    ) -> Written:
        """Store what ``change`` returns, as it is; the very object it was given: nothing."""
        resource = target.resource
        for _ in range(ATTEMPTS):
            entry = self._present(target)
            old = entry.shown(resource)
            new = change(old)
            if new is old:
                return Written(entry)
            if deletion.finished(new):
                if self._remove(target, entry, author):
                    return Written(_unstored(target, new, entry.revision), gone=True)
                continue
            claimed = self._claim(resource, new, old)
            done = self._store_it(resource, target.key, entry.revision, new, claimed, author)
            if done is not None:
                return done
        raise conflict(resource.group, resource.plural, target.name)

    def apply(
        self, target: Target, body: bytes, author: Author, force: bool, validation: FieldValidation
    ) -> tuple[Written, tuple[str, ...], bool]:
        """Store what server-side apply makes of an object, or create it.

        Returns the object, warnings about unknown fields, and whether it is new. Raises
        ApiError 400, 403, 404 (no such namespace), 409 (owned by others), 415, 422.
        """
        resource, write = target.resource, self._write(target, author)
        for _ in range(ATTEMPTS):
            entry = self._cache.get(target.key)
            old = entry.shown(resource) if entry else None
            if old is None:
                self._check_namespace(target, {"metadata": {"name": target.name}})
            new = writes.apply(write, old, body, force=force, field_validation=validation)
            if entry is not None and new.object is old:
                return Written(entry), new.warnings, False
            claimed = self._claim(resource, new.object, old)
            revision = entry.revision if entry else 0
            done = self._store_it(resource, target.key, revision, new.object, claimed, author)
            if done is not None:
                return done, new.warnings, entry is None
        raise conflict(resource.group, resource.plural, target.name)

    def delete(self, target: Target, options: Object, author: Author) -> Written:
        """Delete at once, or mark for deletion. Raises ApiError 403, 404, 409."""
        resource = target.resource
        for _ in range(ATTEMPTS):
            entry = self._present(target)
            old = entry.shown(resource)
            meant = deletion.deletion(resource, old, options, author.now)
            if meant.remove:
                if self._remove(target, entry, author):
                    return Written(entry, gone=True)
                continue
            if meant.object is old:
                return Written(entry)
            done = self._store_it(
                resource, target.key, entry.revision, meant.object, Claim(), author
            )
            if done is not None:
                return done
        raise conflict(resource.group, resource.plural, target.name)

    def delete_if_present(self, target: Target, options: Object, author: Author) -> None:
        """Delete; that it is gone already is no error."""
        try:
            self.delete(target, options, author)
        except ApiError as error:
            if error.code != 404:
                raise

    def _write(self, target: Target, author: Author) -> writes.Write:
        return writes.Write(
            target.resource,
            author.manager,
            author.now,
            self._chooser,
            target.subresource,
            target.namespace,
            target.name,
        )

    def _present(self, target: Target) -> Entry:
        entry = self._cache.get(target.key)
        if entry is None:
            resource = target.resource
            raise not_found(resource.group, resource.plural, target.name)
        return entry

    def _check_namespace(self, target: Target, body: Object) -> None:
        """Refuse to create in a namespace that is not there, or going. ApiError 403, 404."""
        if not target.resource.namespaced:
            return
        namespaces = find("", "v1", "namespaces")
        entry = self._cache.get(namespaces.key("", target.namespace)) if namespaces else None
        if entry is None:
            raise not_found("", "namespaces", target.namespace)
        if metadata_of(entry.object).get("deletionTimestamp"):
            resource, name = target.resource, metadata_of(body).get("name", "")
            why = (
                f"unable to create new content in namespace {target.namespace} "
                "because it is being terminated"
            )
            raise forbidden(resource.group, resource.plural, name, why)

    def _claim(self, resource: Resource, new: Object, old: Object | None) -> Claim:
        """Allocate for a Service; nothing else needs it."""
        if resource.kind != "Service":
            return Claim()
        return claim(self._ranges, new, old, self._cache.raw_keys(), self._random)

    def _store_it(
        self,
        resource: Resource,
        key: str,
        revision: int,
        new: Object,
        claimed: Claim,
        author: Author,
    ) -> Written | None:
        """Write ``new`` if the key is still at ``revision`` (0: absent); None if it is not."""
        stored = writes.stored(resource, new)
        if author.dry_run:
            return Written(Entry(key, _stamped(stored, revision), revision))
        metadata = new["metadata"]
        owner = f"{metadata.get('namespace', '')}/{metadata['name']}"
        lease = self._leases.current() if resource.storage == "events" else 0
        result = self._store.txn(
            [ModRevisionIs(key, revision), *claimed.conditions()],
            [Put(key, meta.stored_bytes(stored), lease), *claimed.writes(owner)],
        )
        if not result.succeeded:
            self._cache.catch_up()
            return None
        self._cache.wrote(result.revision)
        return Written(Entry(key, _stamped(stored, result.revision), result.revision))

    def _remove(self, target: Target, entry: Entry, author: Author) -> bool:
        if author.dry_run:
            return True
        reserved = held(entry.object) if target.resource.kind == "Service" else {}
        result = self._store.txn(
            [ModRevisionIs(target.key, entry.revision)],
            [Delete(target.key), *(Delete(key) for key in reserved)],
        )
        if result.succeeded:
            self._cache.wrote(result.revision)
        else:
            self._cache.catch_up()
        return result.succeeded


def _stamped(obj: Object, revision: int) -> Object:
    metadata = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    if revision:
        metadata["resourceVersion"] = str(revision)
    return {**obj, "metadata": metadata}


def _unstored(target: Target, obj: Object, revision: int) -> Entry:
    return Entry(target.key, writes.stored(target.resource, obj), revision)
