"""etcd's v3 API as bytes: one function per message labnet sends or reads.

Field numbers are those of etcd's ``rpc.proto`` and ``kv.proto`` (they never change);
what they mean is in https://etcd.io/docs/v3.4/learning/api/. Everything here is pure:
``channel`` does the talking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labnet.store.model import (
    Delete,
    Event,
    EventType,
    KeyValue,
    ModRevisionIs,
    Page,
    Put,
    TxnResult,
)
from labnet.store.wire import fields, integer, message, octets, signed

_MOD = 2  # Compare.target: compare mod_revision (result 0, left out, is EQUAL)


@dataclass(frozen=True, slots=True)
class WatchResponse:
    """One message of a watch: events, or how the watch itself fares."""

    events: tuple[Event, ...] = ()
    created: bool = False
    canceled: bool = False
    compact_revision: int = 0
    reason: str = ""


def range_end(prefix: str) -> bytes:
    """Return the end of the range of all keys with ``prefix``: its last byte plus one."""
    stem = prefix.encode().rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else b"\0"


def _first(prefix: str) -> bytes:
    return prefix.encode() or b"\0"  # the empty key does not exist


def get_request(key: str) -> bytes:
    """Return a RangeRequest for one key."""
    return octets(1, key.encode())


def range_request(prefix: str, limit: int, revision: int, start: str) -> bytes:
    """Return a RangeRequest for the keys with ``prefix`` that are not below ``start``."""
    first = max(_first(prefix), start.encode())
    return (
        octets(1, first) + octets(2, range_end(prefix)) + integer(3, limit) + integer(4, revision)
    )


def txn_request(compare: Sequence[ModRevisionIs], writes: Sequence[Put | Delete]) -> bytes:
    """Return a TxnRequest: if all of ``compare`` hold, do ``writes``."""
    conditions = (
        message(1, integer(2, _MOD) + octets(3, c.key.encode()) + integer(6, c.revision))
        for c in compare
    )
    return b"".join((*conditions, *(message(2, _operation(w)) for w in writes)))


def _operation(write: Put | Delete) -> bytes:
    key = octets(1, write.key.encode())
    if isinstance(write, Delete):
        return message(3, key)
    return message(2, key + octets(2, write.value) + integer(3, write.lease))


def watch_request(prefix: str, start_revision: int) -> bytes:
    """Return a WatchRequest that creates a watch with previous values."""
    wanted = octets(1, _first(prefix)) + octets(2, range_end(prefix))
    return message(1, wanted + integer(3, start_revision) + integer(6, 1))


PROGRESS_REQUEST = message(3, b"")  # a WatchRequest that is answered without events


def grant_request(ttl_seconds: int) -> bytes:
    """Return a LeaseGrantRequest; etcd chooses the id."""
    return integer(1, ttl_seconds)


def lease_request(lease: int) -> bytes:
    """Return a LeaseKeepAliveRequest or LeaseRevokeRequest: they are alike."""
    return integer(1, lease)


def compaction_request(revision: int) -> bytes:
    """Return a CompactionRequest that is answered when the reads are cut off."""
    return integer(1, revision)


def _revision(header: bytes) -> int:
    return next((v for n, v in fields(header) if n == 3 and isinstance(v, int)), 0)


def key_value(data: bytes) -> KeyValue:
    """Read an ``mvccpb.KeyValue``."""
    got: dict[int, Any] = dict(fields(data))
    lease = signed(got.get(6, 0))
    return KeyValue(got[1].decode(), got.get(5, b""), got.get(2, 0), got.get(3, 0), lease)


def page(data: bytes) -> Page:
    """Read a RangeResponse."""
    items: list[bytes] = []
    got: dict[int, Any] = {}
    for number, value in fields(data):
        if number == 2 and isinstance(value, bytes):
            items.append(value)
        else:
            got[number] = value
    found = tuple(map(key_value, items))
    return Page(found, _revision(got.get(1, b"")), bool(got.get(3, 0)), got.get(4, 0))


def txn_result(data: bytes) -> TxnResult:
    """Read a TxnResponse."""
    got: dict[int, Any] = dict(fields(data))
    return TxnResult(bool(got.get(2, 0)), _revision(got.get(1, b"")))


def _event(data: bytes) -> Event:
    got: dict[int, Any] = dict(fields(data))
    kind = EventType.DELETE if got.get(1) else EventType.PUT
    return Event(kind, key_value(got[2]), key_value(got[3]) if 3 in got else None)


def watch_response(data: bytes) -> WatchResponse:
    """Read a WatchResponse."""
    events: list[Event] = []
    got: dict[int, Any] = {}
    for number, value in fields(data):
        if number == 11 and isinstance(value, bytes):
            events.append(_event(value))
        else:
            got[number] = value
    reason = got.get(6, b"").decode()
    created, canceled = bool(got.get(3, 0)), bool(got.get(4, 0))
    return WatchResponse(tuple(events), created, canceled, got.get(5, 0), reason)


def lease_granted(data: bytes) -> int:
    """Read a LeaseGrantResponse: the new lease's id."""
    got: dict[int, Any] = dict(fields(data))
    return signed(got.get(2, 0))


def lease_remaining(data: bytes) -> int:
    """Read a LeaseKeepAliveResponse: seconds left; 0 when there is no such lease."""
    got: dict[int, Any] = dict(fields(data))
    return max(0, signed(got.get(3, 0)))
