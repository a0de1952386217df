"""etcd's map in this process: the same answers, nothing written anywhere.

Every version of every key is kept until ``compact``, and every revision's events in a
log that watches read from. Leases end by the clock that is handed in, looked at
whenever somebody calls or watches. Tests of everything above the store run on it; the
contract suite holds it to what etcd does.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count

from labnet.clock import Clock, SystemClock
from labnet.errors import LabnetError, NotFound
from labnet.store.model import (
    Compacted,
    Delete,
    Event,
    EventType,
    KeyValue,
    ModRevisionIs,
    Page,
    Put,
    TxnResult,
)

_BEYOND = "\U0010ffff"  # sorts after every key that a prefix is followed by


@dataclass(slots=True)
class _Lease:
    ttl: int
    ends: float  # on the monotonic clock
    keys: set[str] = field(default_factory=set)


class MemoryStore:
    """A store that lives and dies with its process; safe to use from several threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._changed = threading.Condition(threading.RLock())
        self._revision = 1  # as a new etcd says
        self._compacted = 0
        self._versions: dict[str, list[KeyValue]] = {}  # create_revision 0: a deletion
        self._keys: list[str] = []  # the keys of _versions, in order
        self._log: list[tuple[int, tuple[Event, ...]]] = []
        self._leases: dict[int, _Lease] = {}
        self._lease_ids = count(0x1AB0001)

    def get(self, key: str) -> KeyValue | None:
        """Return ``key`` as it is now, or None."""
        with self._changed:
            self._expire()
            return self._live(key)

    def range(self, prefix: str, *, limit: int = 0, revision: int = 0, start: str = "") -> Page:
        """Return the keys that begin with ``prefix``, in order; see ``Store.range``."""
        with self._changed:
            self._expire()
            at = revision or self._revision
            self._check_kept(at)
            first = bisect_left(self._keys, max(prefix, start))
            keys = self._keys[first : bisect_left(self._keys, prefix + _BEYOND)]
            found = [kv for kv in (self._version(key, at) for key in keys) if kv]
            cut = found[:limit] if limit else found
            return Page(tuple(cut), self._revision, len(cut) < len(found), len(found))

    def txn(self, compare: Sequence[ModRevisionIs], writes: Sequence[Put | Delete]) -> TxnResult:
        """Do all ``writes`` in one revision if every comparison holds, else none."""
        if len({w.key for w in writes}) < len(writes):
            raise LabnetError("duplicate key given in txn request")
        with self._changed:
            self._expire()
            if not all(self._holds(condition) for condition in compare):
                return TxnResult(False, self._revision)
            for write in writes:
                if isinstance(write, Put) and write.lease:
                    self._lease(write.lease)
            self._commit(writes)
            return TxnResult(True, self._revision)

    def watch(
        self, prefix: str, start_revision: int
    ) -> AbstractContextManager[Iterator[tuple[Event, ...]]]:
        """Yield the events of each revision from ``start_revision`` on; see ``Store.watch``."""
        return _Watch(self, prefix, max(1, start_revision))

    def grant(self, ttl_seconds: int) -> int:
        """Return the id of a new lease."""
        with self._changed:
            lease = next(self._lease_ids)
            self._leases[lease] = _Lease(ttl_seconds, self._clock.monotonic() + ttl_seconds)
            self._changed.notify_all()
            return lease

    def keep_alive(self, lease: int) -> int:
        """Renew ``lease`` once; return its remaining seconds, 0 if it is gone."""
        with self._changed:
            self._expire()
            held = self._leases.get(lease)
            if held is None:
                return 0
            held.ends = self._clock.monotonic() + held.ttl
            return held.ttl

    def revoke(self, lease: int) -> None:
        """End ``lease``; its keys are deleted. One that is gone already is no error."""
        with self._changed:
            if held := self._leases.pop(lease, None):
                self._commit([Delete(key) for key in sorted(held.keys)])

    def compact(self, revision: int) -> None:
        """Forget everything before ``revision``; what is forgotten already is no error."""
        with self._changed:
            if revision > self._revision:
                raise LabnetError(f"revision {revision} is in the future")
            self._compacted = max(self._compacted, revision)
            self._log = [entry for entry in self._log if entry[0] >= self._compacted]
            self._versions = {k: self._kept(v) for k, v in self._versions.items()}
            self._changed.notify_all()

    def _kept(self, versions: list[KeyValue]) -> list[KeyValue]:
        newer = [kv for kv in versions if kv.mod_revision > self._compacted]
        older = versions[: len(versions) - len(newer)]
        return older[-1:] + newer

    def _check_kept(self, revision: int) -> None:
        if revision < self._compacted:
            raise Compacted(f"revision {revision} is compacted; the oldest is {self._compacted}")
        if revision > self._revision:
            raise LabnetError(f"revision {revision} is in the future; now is {self._revision}")

    def _version(self, key: str, revision: int) -> KeyValue | None:
        for kv in reversed(self._versions.get(key, ())):
            if kv.mod_revision <= revision:
                return kv if kv.create_revision else None
        return None

    def _live(self, key: str) -> KeyValue | None:
        return self._version(key, self._revision)

    def _holds(self, condition: ModRevisionIs) -> bool:
        kv = self._live(condition.key)
        return (kv.mod_revision if kv else 0) == condition.revision

    def _lease(self, lease: int) -> _Lease:
        if lease not in self._leases:
            raise NotFound(f"requested lease not found: {lease:x}")
        return self._leases[lease]

    def _commit(self, writes: Sequence[Put | Delete]) -> None:
        """Do ``writes`` as one revision; none that changes nothing takes one."""
        revision = self._revision + 1
        made = tuple(e for e in (self._event(write, revision) for write in writes) if e)
        if not made:
            return
        for event in made:
            self._apply(event)
        self._revision = revision
        self._log.append((revision, made))
        self._changed.notify_all()

    def _event(self, write: Put | Delete, revision: int) -> Event | None:
        old = self._live(write.key)
        if isinstance(write, Delete):
            gone = KeyValue(write.key, b"", 0, revision)
            return Event(EventType.DELETE, gone, old) if old else None
        created = old.create_revision if old else revision
        kv = KeyValue(write.key, write.value, created, revision, write.lease)
        return Event(EventType.PUT, kv, old)

    def _apply(self, event: Event) -> None:
        key = event.kv.key
        if key not in self._versions:
            insort(self._keys, key)
        self._versions.setdefault(key, []).append(event.kv)
        if event.previous and (held := self._leases.get(event.previous.lease)):
            held.keys.discard(key)
        if held := self._leases.get(event.kv.lease):
            held.keys.add(key)

    def _expire(self) -> None:
        now = self._clock.monotonic()
        for lease in [i for i, held in self._leases.items() if held.ends <= now]:
            self.revoke(lease)

    def _patience(self) -> float | None:
        """Seconds until the next lease ends: how long a watch may sleep at most."""
        ends = [held.ends for held in self._leases.values()]
        return max(0.0, min(ends) - self._clock.monotonic()) if ends else None

    def _events_since(self, revision: int, prefix: str) -> tuple[int, list[tuple[Event, ...]]]:
        """Return where to go on, and the batches below ``prefix`` from ``revision`` on."""
        if revision < self._compacted:
            raise Compacted(f"revision {revision} is compacted; the oldest is {self._compacted}")
        entries = self._log[bisect_left(self._log, (revision,)) :]
        batches = [tuple(e for e in made if e.kv.key.startswith(prefix)) for _, made in entries]
        following = entries[-1][0] + 1 if entries else revision
        return following, [b for b in batches if b]


class _Watch:
    """One reader of a store's log."""

    def __init__(self, store: MemoryStore, prefix: str, start: int) -> None:
        self._store = store
        self._prefix = prefix
        self._next = start
        self._left = False

    def __enter__(self) -> Iterator[tuple[Event, ...]]:
        return self._batches()

    def __exit__(self, *_: object) -> None:
        with self._store._changed:
            self._left = True
            self._store._changed.notify_all()

    def _batches(self) -> Iterator[tuple[Event, ...]]:
        yield ()  # as etcd says "created"
        while (batches := self._wait()) is not None:
            yield from batches

    def _wait(self) -> list[tuple[Event, ...]] | None:
        """Return the next events, waiting for some; None once the watch is left."""
        store = self._store
        with store._changed:
            while not self._left:
                store._expire()
                self._next, batches = store._events_since(self._next, self._prefix)
                if batches:
                    return batches
                store._changed.wait(store._patience())
            return None
