"""The words of the store: what etcd keeps and what it answers, as plain values.

etcd is one ordered map from key to bytes with a single counter, the *revision*,
that grows by one with every transaction that changes anything. A key remembers the
revision that created it and the one that last changed it; Kubernetes'
``resourceVersion`` is exactly that ``mod_revision``. Whoever knows a revision can
read the map as it was then, or watch everything that happened since, until
compaction forgets it. :class:`Store` is the contract that both the etcd client and
its in-memory twin keep (``tests/contract/test_store.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from labnet.errors import LabnetError


class Compacted(LabnetError):
    """The revision asked for is no longer kept; list again and go on from there."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key as the store holds it."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = 0  # 0: bound to no lease


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to a range request, read at one ``revision``."""

    items: tuple[KeyValue, ...]
    revision: int
    more: bool = False  # the limit cut it short
    count: int = 0  # keys in the whole range


class EventType(Enum):
    """What happened to a key."""

    PUT = "PUT"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Event:
    """One change. For a DELETE ``kv`` has the key, no value, the deleting revision."""

    type: EventType
    kv: KeyValue
    previous: KeyValue | None  # the key before this change, None for a creation


@dataclass(frozen=True, slots=True)
class ModRevisionIs:
    """Holds when ``key`` was last changed at ``revision``; 0: it does not exist."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class Put:
    """Write ``value``, bound to ``lease`` unless that is 0."""

    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove ``key`` if it is there."""

    key: str


@dataclass(frozen=True, slots=True)
class TxnResult:
    """Whether the comparisons held (and the writes happened), and the revision."""

    succeeded: bool
    revision: int


class Store(Protocol):
    """What labnet asks of etcd (v3 API). Every call may raise ``Unavailable``."""

    def get(self, key: str) -> KeyValue | None:
        """Return ``key`` as it is now, or None."""

    def range(self, prefix: str, *, limit: int = 0, revision: int = 0, start: str = "") -> Page:
        """Return the keys that begin with ``prefix``, in order.

        ``limit`` 0 means all; ``revision`` 0 means now; ``start`` skips keys below it
        (it is a full key). Raises ``Compacted``.
        """

    def txn(self, compare: Sequence[ModRevisionIs], writes: Sequence[Put | Delete]) -> TxnResult:
        """Do all ``writes`` in one revision if every comparison holds, else none."""

    def watch(
        self, prefix: str, start_revision: int
    ) -> AbstractContextManager[Iterator[tuple[Event, ...]]]:
        """Yield the events of each revision from ``start_revision`` on, in order.

        Every event exactly once, across restarts of the server too. An empty tuple may
        be yielded as a heartbeat. Raises ``Compacted``. Leaving the context from any
        thread ends the iterator.
        """

    def grant(self, ttl_seconds: int) -> int:
        """Return the id of a new lease."""

    def keep_alive(self, lease: int) -> int:
        """Renew ``lease`` once; return its remaining seconds, 0 if it is gone."""

    def revoke(self, lease: int) -> None:
        """End ``lease``; its keys are deleted."""

    def compact(self, revision: int) -> None:
        """Forget everything before ``revision``."""
