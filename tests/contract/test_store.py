"""What a store promises, held against the in-memory twin and against a real etcd.

Every test takes a fresh prefix, so one etcd serves them all.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from labnet.errors import LabnetError, NotFound, Unavailable
from labnet.store.etcd import EtcdStore
from labnet.store.memory import MemoryStore
from labnet.store.model import Compacted, Delete, Event, EventType, ModRevisionIs, Put, Store
from tests.conditions import eventually
from tests.etcd_server import EtcdServer

_PREFIXES = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture(params=["memory", pytest.param("etcd", marks=pytest.mark.etcd)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    etcd = request.getfixturevalue("server")
    with EtcdStore(etcd.endpoint, etcd.tls) as real:
        yield real


@pytest.fixture
def prefix() -> str:
    return f"/registry/t{next(_PREFIXES)}/"


def put(store: Store, key: str, value: bytes = b"x", lease: int = 0) -> int:
    return store.txn([], [Put(key, value, lease)]).revision


def take(events: Iterator[tuple[Event, ...]], wanted: int) -> list[tuple[Event, ...]]:
    batches: list[tuple[Event, ...]] = []
    for batch in events:
        if batch:
            batches.append(batch)
        if len(batches) == wanted:
            break
    return batches


def test_a_key_that_is_not_there_is_none(store: Store, prefix: str) -> None:
    assert store.get(prefix + "none") is None


def test_a_written_key_remembers_the_revisions_of_its_creation_and_last_change(
    store: Store, prefix: str
) -> None:
    created = put(store, prefix + "a", b"1")
    changed = put(store, prefix + "a", b"2")
    kv = store.get(prefix + "a")
    assert changed == created + 1
    assert kv is not None
    assert (kv.value, kv.create_revision, kv.mod_revision) == (b"2", created, changed)


def test_an_empty_value_is_a_value(store: Store, prefix: str) -> None:
    put(store, prefix + "a", b"")
    kv = store.get(prefix + "a")
    assert kv is not None
    assert kv.value == b""


def test_a_create_only_transaction_succeeds_once(store: Store, prefix: str) -> None:
    absent = ModRevisionIs(prefix + "a", 0)
    first = store.txn([absent], [Put(prefix + "a", b"1")])
    second = store.txn([absent], [Put(prefix + "a", b"2")])
    kv = store.get(prefix + "a")
    assert (first.succeeded, second.succeeded) == (True, False)
    assert second.revision >= first.revision
    assert kv is not None
    assert kv.value == b"1"


def test_a_transaction_with_a_stale_revision_writes_nothing(store: Store, prefix: str) -> None:
    old = put(store, prefix + "a", b"1")
    put(store, prefix + "a", b"2")
    result = store.txn(
        [ModRevisionIs(prefix + "a", old)], [Put(prefix + "b", b"3"), Delete(prefix + "a")]
    )
    assert not result.succeeded
    assert [kv.key for kv in store.range(prefix).items] == [prefix + "a"]


def test_all_writes_of_a_transaction_share_one_revision(store: Store, prefix: str) -> None:
    put(store, prefix + "gone")
    result = store.txn(
        [], [Put(prefix + "a", b"1"), Put(prefix + "b", b"2"), Delete(prefix + "gone")]
    )
    items = store.range(prefix).items
    assert [(kv.key, kv.mod_revision) for kv in items] == [
        (prefix + "a", result.revision),
        (prefix + "b", result.revision),
    ]


def test_deleting_what_is_not_there_takes_no_revision(store: Store, prefix: str) -> None:
    before = put(store, prefix + "a")
    assert store.txn([], [Delete(prefix + "none")]).revision == before


def test_a_transaction_may_not_name_a_key_twice(store: Store, prefix: str) -> None:
    with pytest.raises(LabnetError, match="duplicate key"):
        store.txn([], [Put(prefix + "a", b"1"), Put(prefix + "a", b"2")])


def test_a_range_is_in_order_and_ends_with_its_prefix(store: Store, prefix: str) -> None:
    for name in ("b", "a/x", "a", "é"):
        put(store, prefix + name)
    put(store, prefix[:-1] + "0")  # the key just after the prefix
    page = store.range(prefix)
    assert [kv.key.removeprefix(prefix) for kv in page.items] == ["a", "a/x", "b", "é"]
    assert (page.more, page.count) == (False, 4)


def test_the_empty_prefix_is_everything(store: Store, prefix: str) -> None:
    put(store, prefix + "a")
    assert prefix + "a" in {kv.key for kv in store.range("").items}


def test_pages_go_on_at_the_revision_they_began_at(store: Store, prefix: str) -> None:
    for name in "abcde":
        put(store, prefix + name, b"old")
    first = store.range(prefix, limit=2)
    put(store, prefix + "c", b"new")
    put(store, prefix + "bb", b"new")
    second = store.range(prefix, limit=2, revision=first.revision, start=prefix + "b\0")
    third = store.range(prefix, limit=2, revision=first.revision, start=prefix + "d\0")
    assert [kv.key[-1] for p in (first, second, third) for kv in p.items] == list("abcde")
    assert {kv.value for kv in second.items} == {b"old"}
    assert (first.more, second.more, third.more) == (True, True, False)
    assert (first.count, second.count) == (5, 3)


def test_a_range_in_the_past_shows_deleted_keys(store: Store, prefix: str) -> None:
    then = put(store, prefix + "a", b"1")
    store.txn([], [Delete(prefix + "a")])
    assert [kv.value for kv in store.range(prefix, revision=then).items] == [b"1"]
    assert store.range(prefix).items == ()


def test_a_range_in_the_future_is_refused(store: Store, prefix: str) -> None:
    now = put(store, prefix + "a")
    with pytest.raises(LabnetError, match="future"):
        store.range(prefix, revision=now + 1000)


def test_a_compacted_revision_can_be_neither_read_nor_watched(store: Store, prefix: str) -> None:
    old = put(store, prefix + "a")
    put(store, prefix + "a")
    now = put(store, prefix + "a", b"3")
    store.compact(now)
    store.compact(now)
    with pytest.raises(Compacted):
        store.range(prefix, revision=old)
    with pytest.raises(Compacted), store.watch(prefix, old) as events:
        take(events, 1)
    assert [kv.value for kv in store.range(prefix, revision=now).items] == [b"3"]


def test_a_watch_tells_creation_change_and_deletion_with_the_value_before(
    store: Store, prefix: str
) -> None:
    first = put(store, prefix + "a", b"1")
    put(store, prefix + "a", b"2")
    last = store.txn([], [Delete(prefix + "a")]).revision
    with store.watch(prefix, first) as events:
        (created,), (changed,), (deleted,) = take(events, 3)
    assert created.previous is None
    assert [e.type for e in (created, changed, deleted)] == [
        EventType.PUT,
        EventType.PUT,
        EventType.DELETE,
    ]
    assert changed.previous == created.kv
    assert changed.kv.create_revision == first
    assert deleted.previous == changed.kv
    assert (deleted.kv.key, deleted.kv.value, deleted.kv.mod_revision) == (prefix + "a", b"", last)


def test_a_watch_sees_only_its_prefix_and_only_from_its_revision_on(
    store: Store, prefix: str
) -> None:
    put(store, prefix + "before")
    start = put(store, prefix[:-1] + "0") + 1
    put(store, prefix + "after")
    with store.watch(prefix, start) as events:
        [[event]] = take(events, 1)
    assert event.kv.key == prefix + "after"


def test_the_events_of_one_transaction_come_together(store: Store, prefix: str) -> None:
    revision = store.txn([], [Put(prefix + "a", b"1"), Put(prefix + "b", b"2")]).revision
    put(store, prefix + "c")
    with store.watch(prefix, revision) as events:
        together, alone = take(events, 2)
    assert sorted(e.kv.key[-1] for e in together) == ["a", "b"]
    assert [e.kv.key[-1] for e in alone] == ["c"]


def test_a_watch_waits_for_what_has_not_happened_yet(store: Store, prefix: str) -> None:
    start = put(store, prefix + "a") + 1
    got: list[str] = []

    def read() -> None:
        with store.watch(prefix, start) as events:
            got.extend(e.kv.key[-1] for batch in take(events, 3) for e in batch)

    reader = threading.Thread(target=read)
    reader.start()
    for name in "xyz":
        put(store, prefix + name)
    reader.join(10)
    assert got == ["x", "y", "z"]


def test_leaving_a_watch_from_another_thread_ends_it(store: Store, prefix: str) -> None:
    start = put(store, prefix + "a") + 1
    watching, ended = threading.Event(), threading.Event()
    watch = store.watch(prefix, start)

    def read() -> None:
        for _ in watch.__enter__():
            watching.set()
        ended.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert watching.wait(10), "a watch says so when it is set up"
    watch.__exit__(None, None, None)
    assert ended.wait(10)
    reader.join()


def test_the_keys_of_a_lease_go_with_it(store: Store, prefix: str) -> None:
    lease = store.grant(60)
    put(store, prefix + "a", b"1", lease)
    kv = store.get(prefix + "a")
    assert kv is not None
    assert kv.lease == lease
    assert store.keep_alive(lease) == 60
    store.revoke(lease)
    assert store.get(prefix + "a") is None
    assert store.keep_alive(lease) == 0
    store.revoke(lease)


def test_a_key_written_again_without_its_lease_outlives_it(store: Store, prefix: str) -> None:
    lease = store.grant(60)
    put(store, prefix + "a", b"1", lease)
    put(store, prefix + "a", b"2")
    store.revoke(lease)
    assert store.get(prefix + "a") is not None


def test_a_lease_nobody_renews_ends_and_a_watch_sees_it(store: Store, prefix: str) -> None:
    lease = store.grant(1)
    start = put(store, prefix + "a", b"1", lease)
    with store.watch(prefix, start) as events:
        _, [deleted] = take(events, 2)
    assert deleted.type is EventType.DELETE
    assert store.keep_alive(lease) == 0


def test_an_unknown_lease_cannot_hold_a_key(store: Store, prefix: str) -> None:
    with pytest.raises(NotFound, match="lease not found"):
        put(store, prefix + "a", b"1", lease=4711)
    assert store.get(prefix + "a") is None


@pytest.mark.etcd
def test_a_large_range_comes_whole(server: EtcdServer, prefix: str) -> None:
    with EtcdStore(server.endpoint, server.tls) as store:
        for i in range(40):
            writes = [Put(f"{prefix}{i:02}-{j:02}", b"v" * 3000) for j in range(50)]
            store.txn([], writes)
        assert len(store.range(prefix).items) == 2000


@pytest.mark.etcd
def test_without_a_client_certificate_etcd_does_not_answer(server: EtcdServer) -> None:
    with EtcdStore(server.endpoint, None, deadline=0.3) as store, pytest.raises(Unavailable):
        store.get("a")


@pytest.mark.etcd
def test_a_closed_store_is_unavailable(server: EtcdServer) -> None:
    store = EtcdStore(server.endpoint, server.tls)
    store.get("a")
    store.close()
    with pytest.raises(Unavailable):
        store.get("a")


@pytest.mark.etcd
def test_calls_wait_for_an_etcd_that_starts_late(tmp_path: Path) -> None:
    etcd = EtcdServer(tmp_path)
    with EtcdStore(etcd.endpoint, etcd.tls) as store:
        starter = threading.Timer(0.3, etcd.start, kwargs={"wait": False})
        starter.start()
        try:
            assert store.get("a") is None
        finally:
            starter.join()
            etcd.kill()


@pytest.mark.etcd
def test_an_etcd_that_is_away_is_unavailable_in_time_and_back_at_once(tmp_path: Path) -> None:
    with (
        EtcdServer(tmp_path) as etcd,
        EtcdStore(etcd.endpoint, etcd.tls, deadline=0.2) as store,
    ):
        eventually(lambda: _written(store, "a"))
        etcd.kill()
        with pytest.raises(Unavailable):
            store.txn([], [Put("a", b"2")])
        etcd.start()
        eventually(lambda: _written(store, "a"), 3)


def _written(store: Store, key: str) -> bool:
    try:
        return put(store, key) > 0
    except Unavailable:
        return False


@pytest.mark.etcd
def test_a_watch_survives_kills_of_etcd_without_losing_or_doubling_an_event(
    tmp_path: Path,
) -> None:
    """A writer goes on all the while; what the watch saw is compared with the map itself."""
    seen: list[tuple[int, str]] = []
    with (
        EtcdServer(tmp_path) as etcd,
        EtcdStore(etcd.endpoint, etcd.tls, deadline=10) as store,
    ):
        stop = threading.Event()
        watch = store.watch("/w/", 1)

        def read() -> None:
            for batch in watch.__enter__():
                seen.extend((e.kv.mod_revision, e.kv.key) for e in batch)

        def write() -> None:
            for i in count():
                if stop.is_set():
                    return
                _written(store, f"/w/{i:06}")

        threads = [threading.Thread(target=read), threading.Thread(target=write)]
        for thread in threads:
            thread.start()
        for _ in range(4):
            before = len(seen)
            eventually(lambda before=before: len(seen) > before + 30)  # type: ignore[misc]
            etcd.kill()
            etcd.start(wait=False)
        stop.set()
        threads[1].join()
        kept = [(kv.mod_revision, kv.key) for kv in store.range("/w/").items]
        eventually(lambda: len(seen) >= len(kept))
        watch.__exit__(None, None, None)
        threads[0].join()
    assert seen == sorted(kept)


FORKS = """
import os, sys, threading
from labnet.store.channel import preload
from labnet.store.etcd import EtcdStore
from labnet.store.tls import Tls

preload()
assert threading.active_count() == 1, threading.enumerate()
endpoint, *paths = sys.argv[1:]
children = []
for _ in range(3):
    if (child := os.fork()) == 0:
        with EtcdStore(endpoint, Tls(*paths)) as store:
            store.get("a")
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.etcd
def test_a_process_that_imported_grpc_may_fork_and_its_children_connect(
    server: EtcdServer,
) -> None:
    """PID 1 of a lab imports everything its components need, then forks them."""
    tls = server.tls
    arguments = [server.endpoint, tls.ca, tls.cert, tls.key]
    done = subprocess.run(
        [sys.executable, "-c", FORKS, *arguments], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_grpc_is_not_imported_before_a_store_is_made() -> None:
    text = "import sys, labnet.store.etcd; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0
