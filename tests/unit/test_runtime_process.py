"""The process runtime over a zygote in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from labnet.clock import FakeClock
from labnet.errors import NotFound
from labnet.node.runtime import logs
from labnet.node.runtime.process import ProcessRuntime
from labnet.node.runtime.pump import LogPump
from labnet.sandbox import planner
from labnet.sandbox.spec import ContainerSpec, ExecSpec, Process, SandboxSpec
from labnet.sandbox.zygote_fake import FakeZygote
from tests.conditions import eventually

LABELS = (
    (planner.NAMESPACE, "default"),
    (planner.POD_NAME, "web"),
    (planner.POD_UID, "u1"),
)
SANDBOX = SandboxSpec("u1/0", "node1", "web", labels=LABELS)
CONTAINER = ContainerSpec(
    "u1/web/0",
    "node1",
    "u1/0",
    ("nginx",),
    labels=(*LABELS, (planner.CONTAINER, "web"), (planner.ATTEMPT, "0")),
)


@pytest.fixture
def zygote() -> Iterator[FakeZygote]:
    fake = FakeZygote(FakeClock())
    yield fake
    fake.close()


@pytest.fixture
def runtime(zygote: FakeZygote, tmp_path: Path) -> ProcessRuntime:
    return started(zygote, tmp_path)


def started(zygote: FakeZygote, root: Path) -> ProcessRuntime:
    found = ProcessRuntime(zygote, "node1", FakeClock(), LogPump(FakeClock()), root)
    found.start()
    return found


def run(runtime: ProcessRuntime) -> None:
    os.close(runtime.run_sandbox(SANDBOX))
    runtime.start_container(CONTAINER)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def ended(runtime: ProcessRuntime) -> dict[str, int]:
    return {p.id: p.exit.code for p in runtime.processes() if p.exit}


def test_what_was_started_is_listed_without_asking_again(runtime: ProcessRuntime) -> None:
    run(runtime)
    assert [p.id for p in runtime.processes()] == ["u1/0", "u1/web/0"]
    assert runtime.processes()[1].sandbox == "u1/0"


def test_an_end_is_noticed_and_told(zygote: FakeZygote, runtime: ProcessRuntime) -> None:
    told: list[Process] = []
    runtime.on_exit(told.append)
    run(runtime)
    zygote.end("u1/web/0", 3)
    eventually(lambda: bool(told))
    assert ended(runtime) == {"u1/web/0": 3}
    assert told[0].id == "u1/web/0"


def test_a_forgotten_process_is_gone(zygote: FakeZygote, runtime: ProcessRuntime) -> None:
    run(runtime)
    zygote.end("u1/web/0", 0)
    eventually(lambda: bool(ended(runtime)))
    runtime.forget("u1/web/0")
    assert [p.id for p in runtime.processes()] == ["u1/0"]
    assert [p.id for p in zygote.list()] == ["u1/0"]


def test_a_restarted_kubelet_finds_the_same_processes(
    zygote: FakeZygote, runtime: ProcessRuntime, tmp_path: Path
) -> None:
    run(runtime)
    zygote.end("u1/web/0", 7)
    eventually(lambda: bool(ended(runtime)))
    again = started(zygote, tmp_path)
    assert {p.id for p in again.processes()} == {"u1/0", "u1/web/0"}
    assert ended(again)["u1/web/0"] == 7


def test_the_log_goes_on_after_a_restart(
    zygote: FakeZygote, runtime: ProcessRuntime, tmp_path: Path
) -> None:
    run(runtime)
    path = logs.path_of(tmp_path, CONTAINER.labels)
    assert path == tmp_path / "default_web_u1" / "web" / "0.log"
    assert path.exists()
    assert len(zygote.fds("u1/web/0")) == 2


def test_a_container_that_cannot_start_leaves_no_descriptors(
    zygote: FakeZygote, runtime: ProcessRuntime
) -> None:
    before = descriptors()
    with pytest.raises(NotFound):
        runtime.start_container(CONTAINER)
    assert descriptors() <= before
    assert runtime.processes() == ()


def test_an_exec_ends_with_its_code(zygote: FakeZygote, runtime: ProcessRuntime) -> None:
    run(runtime)
    zygote.exec_codes[("false",)] = 1
    null = os.open(os.devnull, os.O_RDWR)
    process = runtime.exec(ExecSpec(("false",), container="u1/web/0"), (null, null, null))
    os.close(null)
    exit_ = process.wait(5)
    assert exit_ is not None
    assert exit_.code == 1
    process.close()


def test_an_exec_that_goes_on_is_killed(zygote: FakeZygote, runtime: ProcessRuntime) -> None:
    run(runtime)
    null = os.open(os.devnull, os.O_RDWR)
    process = runtime.exec(ExecSpec(("sleep",), container="u1/web/0"), (null, null, null))
    os.close(null)
    assert process.wait(0) is None
    process.kill()
    exit_ = process.wait(5)
    assert exit_ is not None
    assert exit_.signal == 9
    process.close()
