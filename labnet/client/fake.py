"""An API server in memory, for tests of whatever talks to one.

It keeps the same protocol as the HTTP client, and the promises loops rely on: versions
that only grow, ``Conflict`` for a stale write, status written apart, names generated,
deletions that wait for finalizers and (pods on a node) for the kubelet, watches without
gaps. It does not default or validate: tests write the fields they care about.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from typing import Any

from labnet.api.meta import Object, from_store, stored_bytes
from labnet.api.patch_types import MERGE_PATCH
from labnet.api.resource import Resource
from labnet.api.selectors import FieldSelector, LabelSelector, parse_fields, parse_labels
from labnet.client.api import Expired, Listed, Refused, WatchEvent
from labnet.client.fake_objects import finished, grace, kept_apart, made, marked, merged
from labnet.client.kinds import NAMESPACES, PODS
from labnet.clock import Clock, SystemClock, rfc3339
from labnet.errors import AlreadyExists, Conflict, NotFound
from labnet.store.memory import MemoryStore
from labnet.store.model import Compacted, Delete, Event, KeyValue, ModRevisionIs, Put


@dataclass(frozen=True, slots=True)
class Call:
    """One write, as it was asked for."""

    verb: str
    resource: str
    namespace: str
    name: str


class FakeApi:
    """The API server's twin. ``writes`` lists what changed anything, in order."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._store = MemoryStore(self._clock)
        self._ids = count(1)
        self._namespaces: set[str] = set()  # that were made, those that are gone too
        self._lock = threading.RLock()
        self.writes: list[Call] = []
        self.before_write: Callable[[Call], None] = lambda call: None  # may raise

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """Return one object, or raise ``NotFound``."""
        return _object(self._stored(resource, name, namespace))

    def _stored(self, resource: Resource, name: str, namespace: str) -> KeyValue:
        kv = self._store.get(resource.key(namespace, name))
        if kv is None:
            raise NotFound(f'{resource.plural} "{name}" not found')
        return kv

    def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed:
        """Return the objects that the two selectors mean."""
        page = self._store.range(resource.prefix(namespace))
        meant = _Meant(resource, parse_labels(labels), parse_fields(resource, fields))
        items = tuple(obj for kv in page.items if meant(obj := _object(kv)))
        return Listed(items, str(page.revision))

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        version: str,
        labels: str = "",
        fields: str = "",
    ) -> _Watch:
        """Yield what happens after ``version``; see ``Api.watch``."""
        meant = _Meant(resource, parse_labels(labels), parse_fields(resource, fields))
        events = self._store.watch(resource.prefix(namespace), int(version) + 1)
        return _Watch(events, resource, meant)

    def create(self, resource: Resource, obj: Object) -> Object:
        """Create ``obj`` in the namespace it names; return it as the server has it."""
        with self._lock:
            number = next(self._ids)
            new = made(resource, obj, number, rfc3339(self._clock.now()))
            metadata = new["metadata"]
            self._refuse_without_a_namespace(resource, metadata)
            self._note("create", resource, metadata)
            key = resource.key(metadata.get("namespace", ""), metadata["name"])
            written = [Put(key, stored_bytes(new))]
            if not self._store.txn([ModRevisionIs(key, 0)], written).succeeded:
                raise AlreadyExists(f'{resource.plural} "{metadata["name"]}" already exists')
            return self.get(resource, metadata["name"], metadata.get("namespace", ""))

    def _refuse_without_a_namespace(self, resource: Resource, metadata: Object) -> None:
        """Refuse what would be in a namespace that is going or gone.

        One that was never made is taken for there: most tests are about something else.
        """
        if resource == NAMESPACES:
            self._namespaces.add(metadata["name"])
        if not resource.namespaced:
            return
        name = metadata["namespace"]
        kv = self._store.get(NAMESPACES.key("", name))
        if kv is None and name in self._namespaces:
            raise NotFound(f'namespaces "{name}" not found')
        if kv and _object(kv)["metadata"].get("deletionTimestamp"):
            raise Refused(f"namespace {name} is being terminated", code=403, reason="Forbidden")

    def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """Replace ``obj``; ``Conflict`` unless its resourceVersion is the current one."""
        metadata = obj["metadata"]

        def change(old: Object) -> Object:
            version = metadata.get("resourceVersion")
            if version and version != old["metadata"]["resourceVersion"]:
                raise Conflict(
                    f'Operation cannot be fulfilled on {resource.plural} "{metadata["name"]}"'
                )
            return obj

        namespace = metadata.get("namespace", "")
        return self._change(resource, metadata["name"], namespace, change, subresource)

    def update_status(self, resource: Resource, obj: Object) -> Object:
        """Replace only the status of ``obj``; ``Conflict`` as for ``update``."""
        return self.update(resource, obj, "status")

    def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Any,
        *,
        form: str = MERGE_PATCH,
        subresource: str = "",
    ) -> Object:
        """Change an object by a merge patch (other forms: not here)."""
        if form != MERGE_PATCH:
            raise Refused(f"the fake knows no {form}", code=415)

        def change(old: Object) -> Object:
            new: Object = merged(old, patch)
            return new

        return self._change(resource, name, namespace, change, subresource)

    def _change(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        change: Callable[[Object], Object],
        subresource: str,
    ) -> Object:
        """Write what ``change`` makes of the stored object, if it is anything new."""
        with self._lock:
            old = self.get(resource, name, namespace)
            new = kept_apart(resource, old, change(copy.deepcopy(old)), subresource)
            if new == old:
                return old
            return self._write(f"update {subresource}".strip(), resource, new)

    def _write(self, verb: str, resource: Resource, new: Object) -> Object:
        """Store ``new``, or remove it when it was only waiting for this write."""
        metadata = new["metadata"]
        self._note(verb, resource, metadata)
        key = resource.key(metadata.get("namespace", ""), metadata["name"])
        if finished(new):
            self._store.txn([], [Delete(key)])
            return new
        self._store.txn([], [Put(key, stored_bytes(new))])
        return self.get(resource, metadata["name"], metadata.get("namespace", ""))

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        grace_seconds: int | None = None,
        uid: str = "",
        propagation: str = "Background",
    ) -> Object:
        """Delete an object; with ``uid`` only that very one (else ``Conflict``)."""
        with self._lock:
            old = self.get(resource, name, namespace)
            if uid and uid != old["metadata"]["uid"]:
                raise Conflict(f'{resource.plural} "{name}": precondition failed: UID')
            seconds = grace(resource, old, grace_seconds)
            new = marked(old, seconds, propagation, rfc3339(self._clock.now()))
            return old if new == old else self._write("delete", resource, new)

    def delete_collection(self, resource: Resource, namespace: str) -> None:
        """Delete every object of one kind in ``namespace``."""
        for obj in self.list(resource, namespace).items:
            self.delete(resource, obj["metadata"]["name"], namespace)

    def bind(
        self, namespace: str, pod: str, node: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Put a pod on a node; the annotations are copied onto the pod."""

        def change(old: Object) -> Object:
            if old["spec"].get("nodeName"):
                raise Conflict(f"pod {pod} is already assigned to node {old['spec']['nodeName']}")
            patch = {"metadata": {"annotations": dict(annotations or {})}} if annotations else {}
            bound: Object = merged(old, {"spec": {"nodeName": node}, **patch})
            return bound

        self._change(PODS, pod, namespace, change, "")

    def forget_history(self) -> None:
        """Compact: watches from before now are ``Expired``."""
        self._store.compact(self._store.range("").revision)

    def _note(self, verb: str, resource: Resource, metadata: Object) -> None:
        call = Call(verb, resource.plural, metadata.get("namespace", ""), metadata["name"])
        self.before_write(call)
        self.writes.append(call)


class _Meant:
    """Whether two selectors mean an object."""

    def __init__(self, resource: Resource, labels: LabelSelector, fields: FieldSelector) -> None:
        self._resource, self._labels, self._fields = resource, labels, fields

    def __call__(self, obj: Object) -> bool:
        labels = obj["metadata"].get("labels")
        return self._labels.matches(labels) and self._fields.matches(self._resource, obj)


class _Watch:
    """A watch of the store, told in the API's words."""

    def __init__(
        self,
        events: AbstractContextManager[Iterator[tuple[Event, ...]]],
        resource: Resource,
        meant: _Meant,
    ) -> None:
        self._events = events
        self._resource = resource
        self._meant = meant

    def __enter__(self) -> Iterator[WatchEvent]:
        return self._told(self._events.__enter__())

    def __exit__(self, *_: object) -> None:
        self._events.__exit__(None, None, None)

    def _told(self, batches: Iterator[tuple[Event, ...]]) -> Iterator[WatchEvent]:
        try:
            for batch in batches:
                for event in batch:
                    if told := self._event(event):
                        yield told
        except Compacted as error:
            raise Expired(error.message) from error

    def _event(self, event: Event) -> WatchEvent | None:
        """Starts to be meant: ADDED; stops, or is deleted: DELETED, as it was, newer version."""
        old = _object(event.previous) if event.previous else None
        new = _object(event.kv) if event.kv.value else None
        was, is_now = bool(old and self._meant(old)), bool(new and self._meant(new))
        if new is not None and is_now:
            return WatchEvent("MODIFIED" if was else "ADDED", new)
        if old is not None and was:
            old["metadata"]["resourceVersion"] = str(event.kv.mod_revision)
            return WatchEvent("DELETED", old)
        return None


def _object(kv: KeyValue) -> Object:
    return from_store(kv.value, kv.mod_revision)
