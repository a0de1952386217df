"""The watch cache over a store in memory: own writes, order, history, reloading."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from labnet.api.resources import find
from labnet.api.status import ApiError
from labnet.apiserver import cache as module
from labnet.apiserver.cache import WatchCache
from labnet.apiserver.entry import Change, Entry
from labnet.apiserver.selection import selection
from labnet.errors import Unavailable
from labnet.store.memory import MemoryStore
from labnet.store.model import Delete, Put
from tests.conditions import eventually

_PREFIX = "/registry/pods/"


class Recorder:
    """Keeps what it is offered."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []

    def offer(self, change: Change) -> None:
        self.changes.append((change.type, change.entry.key.rpartition("/")[2]))

    def wait(self, count: int) -> list[tuple[str, str]]:
        eventually(lambda: len(self.changes) >= count)
        return self.changes


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def cache(store: MemoryStore) -> Iterator[WatchCache]:
    made = WatchCache(store, ("pods", "services/specs", "services/endpoints"))
    made.start()
    yield made
    made.stop()


def _put(store: MemoryStore, cache: WatchCache | None, name: str, **labels: str) -> int:
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}}
    key = f"{_PREFIX}default/{name}"
    revision = store.txn((), (Put(key, json.dumps(body).encode()),)).revision
    if cache:
        cache.wrote(revision)
    return revision


def _delete(store: MemoryStore, cache: WatchCache | None, name: str) -> None:
    revision = store.txn((), (Delete(f"{_PREFIX}default/{name}"),)).revision
    if cache:
        cache.wrote(revision)


def test_a_read_waits_for_this_servers_own_writes(store: MemoryStore, cache: WatchCache) -> None:
    for n in range(50):
        revision = _put(store, cache, f"p{n}")
        entry = cache.get(f"{_PREFIX}default/p{n}")
        assert entry is not None
        assert entry.object["metadata"]["resourceVersion"] == str(revision)
    assert len(cache.snapshot(_PREFIX).entries) == 50


def test_a_read_that_waits_in_vain_says_so(
    cache: WatchCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CATCH_UP", 0.01)
    cache.wrote(10_000)
    with pytest.raises(Unavailable):
        cache.get(f"{_PREFIX}default/a")


def test_a_watcher_is_told_in_order_and_once(store: MemoryStore, cache: WatchCache) -> None:
    recorder = Recorder()
    cache.subscribe(_PREFIX, recorder)
    _put(store, cache, "a")
    _put(store, cache, "a", changed="yes")
    _delete(store, cache, "a")
    assert recorder.wait(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    cache.unsubscribe(_PREFIX, recorder)
    _put(store, cache, "b")
    assert cache.get(f"{_PREFIX}default/b") is not None
    assert len(recorder.changes) == 3


def test_history_is_bounded_and_says_when_it_ends(
    store: MemoryStore, cache: WatchCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _put(store, cache, "a")
    assert [c.type for c in cache.resume(_PREFIX, first - 1, Recorder())] == ["ADDED"]
    for n in range(module.HISTORY + 1):
        _put(store, cache, "a", n=str(n))
    with pytest.raises(ApiError) as error:
        cache.resume(_PREFIX, first, Recorder())
    assert error.value.code == 410
    assert len(cache.resume(_PREFIX, cache.revision - 5, Recorder())) == 5


def test_keys_that_hold_no_object_are_kept_apart(store: MemoryStore, cache: WatchCache) -> None:
    key = "/registry/ranges/serviceips/10.0.0.5"
    cache.wrote(store.txn((), (Put(key, b"default/web"),)).revision)
    assert set(cache.raw_keys()) == {key}
    cache.wrote(store.txn((), (Delete(key),)).revision)
    assert not cache.raw_keys()


def test_after_a_compaction_watchers_hear_the_difference(store: MemoryStore) -> None:
    """As when etcd was away for longer than it keeps history."""
    for name in ("gone", "changed", "same"):
        _put(store, None, name)
    cache = WatchCache(store, ("pods",))
    cache.load()
    recorder = Recorder()
    cache.subscribe(_PREFIX, recorder)
    _delete(store, None, "gone")
    _put(store, None, "changed", x="y")
    _put(store, None, "new")
    store.compact(store.range("/").revision)
    cache.start_following()
    assert sorted(recorder.wait(3)) == [
        ("ADDED", "new"),
        ("DELETED", "gone"),
        ("MODIFIED", "changed"),
    ]
    cache.stop()


def _change(before: dict[str, str] | None, after: dict[str, str] | None) -> Change:
    def entry(labels: dict[str, str] | None, revision: int) -> Entry | None:
        if labels is None:
            return None
        obj = {"metadata": {"name": "a", "labels": labels}}
        return Entry(f"{_PREFIX}default/a", obj, revision)

    old, new = entry(before, 1), entry(after, 2)
    if new is None:
        assert old is not None
        return Change("DELETED", old.as_of(2), old)
    return Change("MODIFIED" if old else "ADDED", new, old)


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        (None, {"app": "x"}, "ADDED"),
        (None, {"app": "y"}, None),
        ({"app": "x"}, {"app": "x"}, "MODIFIED"),
        ({"app": "y"}, {"app": "x"}, "ADDED"),
        ({"app": "x"}, {"app": "y"}, "DELETED"),
        ({"app": "y"}, {"app": "z"}, None),
        ({"app": "x"}, None, "DELETED"),
        ({"app": "y"}, None, None),
    ],
)
def test_a_selection_sees_membership_change(
    before: dict[str, str] | None, after: dict[str, str] | None, seen: str | None
) -> None:
    pods = find("", "v1", "pods")
    assert pods is not None
    assert selection(pods, "default", "app=x").seen_as(_change(before, after)) == seen
    assert selection(pods, "other").seen_as(_change(before, after)) is None
