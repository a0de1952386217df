"""The store in a real etcd, spoken to over gRPC.

Reads and writes are single calls with a deadline. Whether a write that failed with
``Unavailable`` took effect cannot be known: read again before writing again, which is
what a comparison in the transaction is for.

A watch is a stream that remembers the last revision it handed out. When the stream
breaks (etcd was killed, a link was cut) it asks again from the next revision on, and
because a revision's events always come in one message, nothing is lost or doubled.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from types import TracebackType
from typing import Any, Self

from labnet.errors import NotFound, Unavailable
from labnet.store import messages
from labnet.store.channel import Channel, CutOff
from labnet.store.model import (
    Compacted,
    Delete,
    Event,
    KeyValue,
    ModRevisionIs,
    Page,
    Put,
    TxnResult,
)
from labnet.store.tls import Tls

DEADLINE = 5.0  # seconds a call waits for etcd to come (back), then ``Unavailable``
HEARTBEAT = 15.0  # seconds between a watch's questions whether etcd is still there
_RETRY_PAUSE = 0.05  # seconds between two attempts to open a broken watch


class EtcdStore:
    """A connection to one etcd server; safe to use from several threads.

    ``endpoint`` is ``host:port``. A context manager; nothing connects before the first
    call.
    """

    def __init__(
        self,
        endpoint: str,
        tls: Tls | None = None,
        *,
        deadline: float = DEADLINE,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self._channel = Channel(endpoint, tls)
        self._deadline = deadline
        self._heartbeat = heartbeat
        unary = self._channel.unary
        self._range = unary("KV/Range")
        self._txn = unary("KV/Txn")
        self._compact = unary("KV/Compact")
        self._grant = unary("Lease/LeaseGrant")
        self._revoke = unary("Lease/LeaseRevoke")
        self._keep_alive = self._channel.stream("Lease/LeaseKeepAlive")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; calls and watches under way end with ``Unavailable``."""
        self._channel.close()

    def _call(self, call: Any, request: bytes) -> bytes:
        with self._channel.errors():
            answer: bytes = call(request, timeout=self._deadline, wait_for_ready=True)
        return answer

    def _read(self, request: bytes) -> Page:
        """Read; ask again when a dying server cut it off: reading twice changes nothing."""
        try:
            return messages.page(self._call(self._range, request))
        except CutOff:
            return messages.page(self._call(self._range, request))

    def get(self, key: str) -> KeyValue | None:
        """Return ``key`` as it is now, or None."""
        items = self._read(messages.get_request(key)).items
        return items[0] if items else None

    def range(self, prefix: str, *, limit: int = 0, revision: int = 0, start: str = "") -> Page:
        """Return the keys that begin with ``prefix``, in order; see ``Store.range``."""
        return self._read(messages.range_request(prefix, limit, revision, start))

    def txn(self, compare: Sequence[ModRevisionIs], writes: Sequence[Put | Delete]) -> TxnResult:
        """Do all ``writes`` in one revision if every comparison holds, else none."""
        return messages.txn_result(self._call(self._txn, messages.txn_request(compare, writes)))

    def watch(
        self, prefix: str, start_revision: int
    ) -> AbstractContextManager[Iterator[tuple[Event, ...]]]:
        """Yield the events of each revision from ``start_revision`` on; see ``Store.watch``."""
        return _Watch(self._channel, prefix, start_revision, self._heartbeat)

    def grant(self, ttl_seconds: int) -> int:
        """Return the id of a new lease."""
        return messages.lease_granted(self._call(self._grant, messages.grant_request(ttl_seconds)))

    def keep_alive(self, lease: int) -> int:
        """Renew ``lease`` once; return its remaining seconds, 0 if it is gone."""
        once = iter((messages.lease_request(lease),))
        with self._channel.errors():
            stream = self._keep_alive(once, timeout=self._deadline, wait_for_ready=True)
            answer = next(iter(stream), b"")
            stream.cancel()
        return messages.lease_remaining(answer)

    def revoke(self, lease: int) -> None:
        """End ``lease``; its keys are deleted. One that is gone already is no error."""
        try:
            self._call(self._revoke, messages.lease_request(lease))
        except NotFound:
            return

    def compact(self, revision: int) -> None:
        """Forget everything before ``revision``; what is forgotten already is no error."""
        try:
            self._call(self._compact, messages.compaction_request(revision))
        except Compacted:
            return


class _Watch:
    """One watch: opens streams, one after the other, until it is left."""

    def __init__(self, channel: Channel, prefix: str, start: int, heartbeat: float) -> None:
        self._channel = channel
        self._prefix = prefix
        self._next = max(1, start)  # the first revision not handed out yet
        self._heartbeat = heartbeat
        self._left = threading.Event()
        self._lock = threading.Lock()
        self._stream: Any = None

    def __enter__(self) -> Iterator[tuple[Event, ...]]:
        return self._batches()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._left.set()
            if self._stream is not None:
                self._stream.cancel()

    def _batches(self) -> Iterator[tuple[Event, ...]]:
        while not self._left.is_set():
            over = threading.Event()
            try:
                with self._channel.errors():
                    yield from self._answers(self._opened(over))
            except Unavailable:
                if self._channel.closed:
                    raise
            finally:
                over.set()
            self._left.wait(_RETRY_PAUSE)

    def _opened(self, over: threading.Event) -> Any:
        """Return a new stream, cancelled already if the watch was left meanwhile."""
        stream = self._channel.stream("Watch/Watch")(self._requests(over), wait_for_ready=True)
        with self._lock:
            self._stream = stream
            if self._left.is_set():
                stream.cancel()
        return stream

    def _requests(self, over: threading.Event) -> Iterator[bytes]:
        """Ask for the watch, then now and then whether it still lives (gRPC's thread)."""
        yield messages.watch_request(self._prefix, self._next)
        while not over.wait(self._heartbeat):
            yield messages.PROGRESS_REQUEST

    def _answers(self, stream: Any) -> Iterator[tuple[Event, ...]]:
        for data in stream:
            answer = messages.watch_response(data)
            if answer.compact_revision:
                raise Compacted(
                    f"revision {self._next} is compacted; the oldest kept is "
                    f"{answer.compact_revision}"
                )
            if answer.canceled:
                return
            if not answer.events:
                yield ()
            for revision, events in groupby(answer.events, key=lambda e: e.kv.mod_revision):
                if revision >= self._next:
                    self._next = revision + 1
                    yield tuple(events)
