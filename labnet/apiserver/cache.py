"""Every object of the cluster, in memory: what GET, LIST and watches are answered from.

One etcd watch on ``/registry/`` feeds it. Each change is parsed and encoded once and
then shared by all who asked, so a hundred watchers cost little more than one. A short
history per resource lets a client that knows resource version N go on from there; who
asks for more than is kept gets 410 and lists again.

**Own writes.** This server is the only one that writes below ``/registry/``. It notes
the revision of each of its transactions (``wrote``), and every read waits until the
cache has caught up with that: a client never reads less than it was told was written.

**Outages.** While etcd is away the cache goes on answering: nothing can change then. The
store's watch continues where it was; if compaction went over it meanwhile, the cache
loads everything again and tells watchers the difference.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, KeysView, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from labnet.api import meta
from labnet.api.status import expired
from labnet.apiserver.entry import Change, Entry
from labnet.errors import LabnetError, Unavailable
from labnet.store.model import Compacted, Event, EventType, KeyValue, Store

ROOT = "/registry/"
HISTORY = 1024  # changes kept per resource
CATCH_UP = 3.0  # seconds a read waits for the cache to have the server's own writes
_PAUSE = 0.1  # seconds before the store is asked again after it was away
_MOMENT = 0.02  # seconds within which etcd's watch delivers what it has
_BEYOND = "\U0010ffff"

LOG = logging.getLogger("kube-apiserver")


class Watcher(Protocol):
    """Somebody who is told about changes, in the cache's thread: must not block."""

    def offer(self, change: Change) -> None:
        """Take one change of the resource watched."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Objects in the order of their keys, as they were at one ``revision``."""

    entries: Sequence[Entry]
    revision: int


@dataclass(slots=True)
class _Shelf:
    """The objects of one resource."""

    entries: dict[str, Entry] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)  # sorted
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=HISTORY))
    floor: int = 0  # changes after this revision are all in ``changes``
    watchers: set[Watcher] = field(default_factory=set)

    def below(self, prefix: str) -> list[Entry]:
        first = bisect_left(self.keys, prefix)
        return [
            self.entries[k] for k in self.keys[first : bisect_left(self.keys, prefix + _BEYOND)]
        ]

    def put(self, entry: Entry) -> None:
        if entry.key not in self.entries:
            insort(self.keys, entry.key)
        self.entries[entry.key] = entry

    def remove(self, key: str) -> None:
        if self.entries.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def record(self, change: Change) -> None:
        if len(self.changes) == HISTORY:
            self.floor = self.changes[0].entry.revision
        self.changes.append(change)


class WatchCache:
    """A copy of the store below ``/registry/``, kept current by its own thread.

    ``storages`` are the resources' paths below ``/registry/``; other keys (ranges of
    addresses) are kept as they are. Use it as a context manager, or ``start``/``stop``.
    """

    def __init__(self, store: Store, storages: Iterable[str]) -> None:
        self._store = store
        self._shelves = {storage: _Shelf() for storage in storages}
        self._raw: dict[str, KeyValue] = {}
        self._changed = threading.Condition()
        self._revision = 0
        self._written = 0
        self.delivered = 0  # watchers have been offered everything up to this revision
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._watch: Any = None

    def start(self) -> None:
        """Load everything, then follow. Raises Unavailable."""
        self.load()
        self.start_following()

    def start_following(self) -> None:
        """Follow the store from the revision loaded last."""
        self._thread = threading.Thread(target=self._follow, name="watch-cache", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        if self._watch is not None:
            self._watch.__exit__(None, None, None)
        if self._thread is not None:
            self._thread.join()

    # -- reading ---------------------------------------------------------------------

    def wrote(self, revision: int) -> None:
        """Note a transaction of this server's own: reads from now on include it."""
        with self._changed:
            self._written = max(self._written, revision)

    @property
    def revision(self) -> int:
        """The revision the cache stands at, own writes included."""
        with self._fresh():
            return self._revision

    def get(self, key: str) -> Entry | None:
        """Return one object, or None."""
        with self._fresh():
            shelf = self._shelf(key)
            return shelf.entries.get(key) if shelf else None

    def raw_keys(self) -> KeysView[str]:
        """Return the keys that hold no object (reservations): a live view, to look in."""
        with self._fresh():
            return self._raw.keys()

    def snapshot(self, prefix: str) -> Snapshot:
        """Return the objects whose keys begin with ``prefix``."""
        with self._fresh():
            shelf = self._shelf(prefix)
            return Snapshot(shelf.below(prefix) if shelf else (), self._revision)

    def reached(self, revision: int, timeout: float) -> bool:
        """Wait until the cache has ``revision``; return whether it came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._revision >= revision, timeout)

    def catch_up(self) -> None:
        """Wait until the cache has moved on, a moment at most: somebody's write is on its way."""
        with self._changed:
            at = self._revision
            self._changed.wait_for(lambda: self._revision > at, _MOMENT)

    def check_store(self) -> None:
        """Ask the store anything. Raises Unavailable."""
        self._store.get(f"{ROOT}health")

    def subscribe(self, prefix: str, watcher: Watcher) -> Snapshot:
        """Return what is there; every later change goes to ``watcher``."""
        with self._fresh():
            shelf = self._known_shelf(prefix)
            shelf.watchers.add(watcher)
            return Snapshot(shelf.below(prefix), self._revision)

    def resume(self, prefix: str, since: int, watcher: Watcher) -> list[Change]:
        """Return the changes after ``since``; every later one goes to ``watcher``.

        Raises ApiError 410 when they are not all kept any more.
        """
        with self._fresh():
            shelf = self._known_shelf(prefix)
            if since < shelf.floor:
                raise expired(f"too old resource version: {since} ({shelf.floor})")
            shelf.watchers.add(watcher)
            return [c for c in shelf.changes if c.entry.revision > since]

    def unsubscribe(self, prefix: str, watcher: Watcher) -> None:
        """Forget ``watcher``."""
        with self._changed:
            self._known_shelf(prefix).watchers.discard(watcher)

    @contextmanager
    def _fresh(self) -> Iterator[None]:
        """Hold the lock, once the cache has this server's own writes."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._revision >= self._written, CATCH_UP):
                raise Unavailable(
                    "the watch cache has not caught up with the store",
                    hint="is etcd running? labnet logs etcd",
                )
            yield

    def _shelf(self, key: str) -> _Shelf | None:
        """Return the shelf of a key below ``/registry/STORAGE/``."""
        first, _, rest = key[len(ROOT) :].partition("/")
        return self._shelves.get(first) or self._shelves.get(f"{first}/{rest.partition('/')[0]}")

    def _known_shelf(self, prefix: str) -> _Shelf:
        shelf = self._shelf(prefix)
        if shelf is None:
            raise LabnetError(f"{prefix} belongs to no resource")
        return shelf

    # -- following the store ----------------------------------------------------------

    def load(self) -> None:
        """Take over what the store has now. Raises Unavailable."""
        page = self._store.range(ROOT)
        with self._changed:
            for kv in page.items:
                shelf = self._shelf(kv.key)
                if shelf is None:
                    self._raw[kv.key] = kv
                else:
                    shelf.put(_entry(kv))
            for shelf in self._shelves.values():
                shelf.floor = page.revision
            self._revision = self.delivered = page.revision
            self._changed.notify_all()

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow_once()
            except Compacted:
                self._load_again()
            except Unavailable as error:
                LOG.warning("the watch of the store broke: %s", error.message)
            self._stopping.wait(_PAUSE)

    def _follow_once(self) -> None:
        self._watch = self._store.watch(ROOT, self._revision + 1)
        with self._watch as batches:
            for events in batches:
                if self._stopping.is_set():
                    return
                if events:
                    self._apply(events, events[-1].kv.mod_revision)

    def _load_again(self) -> None:
        """Load again after a compaction, as events: what differs is what happened."""
        try:
            page = self._store.range(ROOT)
        except Unavailable:
            return
        there = {kv.key: kv for kv in page.items}
        held = {k: e.revision for s in self._shelves.values() for k, e in s.entries.items()}
        held |= {key: kv.mod_revision for key, kv in self._raw.items()}
        events = [
            Event(EventType.PUT, kv, None)
            for kv in there.values()
            if kv.mod_revision != held.get(kv.key)
        ]
        gone = (KeyValue(key, b"", 0, page.revision) for key in held if key not in there)
        events += [Event(EventType.DELETE, kv, None) for kv in gone]
        self._apply(sorted(events, key=lambda event: event.kv.mod_revision), page.revision)

    def _apply(self, events: Sequence[Event], revision: int) -> None:
        """Take over one revision's events, then tell the watchers, without the lock."""
        told: list[tuple[Change, tuple[Watcher, ...]]] = []
        with self._changed:
            for event in events:
                change, shelf = self._take(event)
                if change and shelf:
                    told.append((change, tuple(shelf.watchers)))
            self._revision = revision
            self._changed.notify_all()
        for change, watchers in told:
            for watcher in watchers:
                watcher.offer(change)
        self.delivered = revision

    def _take(self, event: Event) -> tuple[Change | None, _Shelf | None]:
        kv = event.kv
        shelf = self._shelf(kv.key)
        if shelf is None:
            if event.type is EventType.PUT:
                self._raw[kv.key] = kv
            else:
                self._raw.pop(kv.key, None)
            return None, None
        previous = shelf.entries.get(kv.key)
        if event.type is EventType.PUT:
            entry = _entry(kv)
            shelf.put(entry)
            change = Change("MODIFIED" if previous else "ADDED", entry, previous)
        elif previous is None:
            return None, None
        else:
            shelf.remove(kv.key)
            change = Change("DELETED", previous.as_of(kv.mod_revision), previous)
        shelf.record(change)
        return change, shelf


def _entry(kv: KeyValue) -> Entry:
    return Entry(kv.key, meta.from_store(kv.value, kv.mod_revision), kv.mod_revision)
