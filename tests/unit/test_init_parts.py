"""The parts of PID 1 that decide: registry, back-off, places, boot record, loop."""

from __future__ import annotations

import gc
import json
import os
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.clock import FakeClock
from labnet.errors import AlreadyExists, NotFound
from labnet.lab.init.backoff import LONGEST, Backoff
from labnet.lab.init.boot import Boot, received, sent
from labnet.lab.init.loop import Loop
from labnet.lab.init.places import exposed
from labnet.lab.init.preload import Preload
from labnet.lab.init.registry import Entry, Registry
from labnet.lab.init.warm import warm_tls
from labnet.sandbox.spec import ExecSpec, Process, SandboxSpec

# -- back-off ---------------------------------------------------------------------------


def test_the_first_restart_is_at_once_then_each_wait_doubles_up_to_thirty_seconds() -> None:
    state, delays = Backoff(), []
    for _ in range(8):
        state = state.after(ran=0.1)
        delays.append(state.delay)
    assert delays == [0, 1, 2, 4, 8, 16, 30, 30]


def test_ten_seconds_of_running_are_forgiveness() -> None:
    state = Backoff(failures=6).after(ran=10.0)
    assert state.delay == 0
    assert state.after(ran=0.1).delay == 1


@given(st.lists(st.floats(0, 100), max_size=40))
def test_no_wait_is_longer_than_the_longest(runs: list[float]) -> None:
    state = Backoff()
    for ran in runs:
        state = state.after(ran)
        assert 0 <= state.delay <= LONGEST


# -- registry ---------------------------------------------------------------------------


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(FakeClock(), tmp_path)


def add(registry: Registry, pid: int = 7, id: str = "uid/0", node: str = "node1") -> Entry:
    process = Process(id, "sandbox", node, pid, "")
    return registry.add(process, SandboxSpec(id, node, "web"), pidfd=-1)


def test_an_end_is_kept_noted_and_told(registry: Registry, tmp_path: Path) -> None:
    heard: list[Process] = []
    registry.watch(1, "node1", heard.append)
    registry.watch(2, "node2", lambda process: pytest.fail("another node's watcher"))
    entry = add(registry)
    registry.confirm(entry)
    registry.ended(7, 137, 9)
    assert [one.exit.code for one in heard if one.exit] == [137]
    assert registry.get("uid/0").process.pid == 0
    note = json.loads((tmp_path / "uid_0").read_text())
    assert note["process"]["exit"]["signal"] == 9


def test_an_end_before_the_report_is_news_only_after_it(registry: Registry) -> None:
    heard: list[Process] = []
    registry.watch(1, "", heard.append)
    entry = add(registry)
    registry.ended(7, 1, 0)
    assert not heard
    with pytest.raises(NotFound, match="is not running"):
        registry.running("uid/0", "sandbox uid/0")
    registry.confirm(entry)
    assert len(heard) == 1


def test_a_failed_start_leaves_nothing(registry: Registry) -> None:
    registry.watch(1, "", lambda process: pytest.fail("it never ran"))
    registry.ended(7, 127, 0)
    entry = add(registry)
    registry.ended(7, 127, 0)
    registry.remove(entry)
    registry.vacant("uid/0", "sandbox uid/0")
    assert list(registry) == []


def test_a_pid_that_is_used_again_means_the_new_process(registry: Registry) -> None:
    first = add(registry, pid=7, id="a")
    registry.confirm(first)
    registry.ended(7, 0, 0)
    second = add(registry, pid=7, id="b")
    registry.confirm(second)
    registry.ended(7, 3, 0)
    assert first.process.exit is not None
    assert second.process.exit is not None
    assert (first.process.exit.code, second.process.exit.code) == (0, 3)


def test_an_id_is_given_once(registry: Registry) -> None:
    add(registry)
    with pytest.raises(AlreadyExists, match="sandbox uid/0 is there already"):
        registry.vacant("uid/0", "sandbox uid/0")


def test_execs_that_nobody_asks_for_make_room_oldest_first(registry: Registry) -> None:
    for pid in range(1, 301):
        process = Process(f"exec/{pid}", "exec", "node1", pid, "")
        registry.confirm(registry.add(process, ExecSpec(("true",)), pidfd=-1))
        registry.ended(pid, 0, 0)
    left = [entry.process.id for entry in registry]
    assert left == [f"exec/{pid}" for pid in range(45, 301)]


def test_removal_closes_what_was_kept(registry: Registry) -> None:
    reader, writer = os.pipe()
    entry = add(registry)
    entry.kept = (writer,)
    registry.remove(entry)
    assert os.read(reader, 1) == b""
    os.close(reader)


# -- places and boot --------------------------------------------------------------------


def test_only_paths_that_a_private_directory_hides_are_shown_again() -> None:
    keep = ("/tmp/clone/.venv", "/usr", "/tmpfiles", "/tmp", "/var/lib/etcd-bin", "/tmp/clone")
    assert exposed(keep, ("/tmp", "/var/lib")) == (
        "/tmp/clone",
        "/tmp/clone/.venv",
        "/var/lib/etcd-bin",
    )


@pytest.mark.parametrize("lock", [None, 11])
@pytest.mark.parametrize("alive", [None, 12])
def test_a_boot_record_arrives_with_its_descriptors(lock: int | None, alive: int | None) -> None:
    boot = Boot("lab", Path("/state"), lock, alive, {"api": 13, "ui": 14}, ("grpc",), ("/opt",))
    payload, fds = sent(boot)
    assert received(payload, fds) == boot


# -- loop -------------------------------------------------------------------------------


def test_timers_fire_in_order_and_not_when_cancelled() -> None:
    clock = FakeClock()
    loop = Loop(clock)
    fired: list[str] = []
    loop.later(2, lambda: fired.append("two"))
    loop.later(1, lambda: fired.append("one"))
    loop.cancel(loop.later(1, lambda: fired.append("never")))
    clock.advance(3)
    loop.turn()
    assert fired == ["one", "two"]


def test_idle_work_waits_until_nothing_is_under_way() -> None:
    clock = FakeClock()
    loop = Loop(clock)
    done: list[str] = []
    loop.when_idle(lambda: done.append("idle"))
    loop.begin()
    loop.later(0, lambda: done.append("timer"))
    loop.turn()
    assert done == ["timer"]
    loop.end()
    loop.turn()
    assert done == ["timer", "idle"]


def test_a_descriptor_dropped_by_an_earlier_callback_is_not_called_back() -> None:
    loop = Loop(FakeClock())
    seen: list[int] = []
    pipes = [os.pipe() for _ in range(2)]
    readers = [reader for reader, _ in pipes]

    def first_drops_the_other(reader: int) -> None:
        seen.append(reader)
        for other in readers:
            if other not in seen:
                loop.forget(other)

    for reader, writer in pipes:
        loop.on_readable(reader, partial(first_drops_the_other, reader))
        os.write(writer, b"x")
    loop.turn()
    assert len(seen) == 1
    for ends in pipes:
        for descriptor in ends:
            os.close(descriptor)


# -- preload ----------------------------------------------------------------------------


def test_modules_are_imported_in_order_and_no_further_than_needed() -> None:
    preload = Preload(Loop(FakeClock()), ("json.tool", "no.such.module", "this", "antigravity"))
    sys.modules.pop("json.tool", None)
    preload.need("no.such.module")
    assert "json.tool" in sys.modules
    assert preload.missing == ["no.such.module"]
    assert "this" not in sys.modules
    preload.need("not.in.the.list")
    assert "this" not in sys.modules


def test_a_function_is_called_and_the_collector_is_on_again() -> None:
    preload = Preload(Loop(FakeClock()), ("gc:disable", "os:no_such_function"))
    preload.finish()
    assert gc.isenabled()
    assert preload.missing == ["os:no_such_function"]


def test_idle_turns_import_one_at_a_time() -> None:
    loop = Loop(FakeClock())
    preload = Preload(loop, ("no.such.module", "no.other.module"))
    loop.turn()
    assert preload.missing == ["no.such.module"]
    loop.turn()
    assert preload.missing == ["no.such.module", "no.other.module"]


def test_the_tls_library_is_warmed_without_a_key() -> None:
    warm_tls()  # raises nothing, whatever the library's policy
