"""Labs are taken, found and recognised as dead by their lock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from labnet.errors import AlreadyExists, LabnetError, NotFound, Unavailable
from labnet.lab import liveness
from labnet.lab.state import StateDirectory


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "labnet"


@pytest.fixture
def demo(base: Path) -> Iterator[StateDirectory]:
    state, lock = liveness.acquire("demo", base)
    yield state
    os.close(lock)


def test_a_lab_lives_as_long_as_its_lock_is_held(base: Path) -> None:
    state, lock = liveness.acquire("demo", base)
    assert liveness.running(state)

    os.close(lock)

    assert not liveness.running(state)
    assert list(liveness.labs(base)) == [(state, False)]


def test_a_lock_passed_on_keeps_the_lab_alive(base: Path) -> None:
    state, lock = liveness.acquire("demo", base)
    inherited = os.dup(lock)
    os.close(lock)

    assert liveness.running(state)

    os.close(inherited)
    assert not liveness.running(state)


def test_of_two_ups_of_one_name_one_wins(base: Path, demo: StateDirectory) -> None:
    with pytest.raises(AlreadyExists, match="lab demo is already running") as refused:
        liveness.acquire("demo", base)

    assert "labnet down demo" in refused.value.hint


def test_asking_whether_a_lab_runs_does_not_take_its_lock(base: Path) -> None:
    state, lock = liveness.acquire("demo", base)
    os.close(lock)

    assert not liveness.running(state)
    again, lock = liveness.acquire("demo", base)
    os.close(lock)

    assert again == state


def test_what_a_dead_lab_left_is_removed_by_the_next_up(base: Path) -> None:
    state, lock = liveness.acquire("demo", base)
    state.logs.mkdir()
    (state.logs / "etcd.log").write_text("old")
    state.info.write_text("{}")
    os.close(lock)

    state, lock = liveness.acquire("demo", base)

    assert [path.name for path in state.path.iterdir()] == ["lock"]
    os.close(lock)


def test_the_only_running_lab_needs_no_name(base: Path, demo: StateDirectory) -> None:
    assert liveness.find(None, base) == demo


def test_with_two_labs_one_has_to_say_which(base: Path, demo: StateDirectory) -> None:
    _, lock = liveness.acquire("other", base)

    with pytest.raises(LabnetError, match="there are 2 labs: demo, other") as refused:
        liveness.find(None, base)

    assert refused.value.hint == "say which: --lab NAME"
    assert liveness.find("other", base).name == "other"
    os.close(lock)


def test_without_a_lab_the_hint_is_to_start_one(base: Path) -> None:
    with pytest.raises(NotFound, match="no lab is running") as missing:
        liveness.find(None, base)

    assert "labnet up" in missing.value.hint


def test_a_wrong_name_is_answered_with_those_that_run(base: Path, demo: StateDirectory) -> None:
    with pytest.raises(NotFound, match="no lab is called dmeo") as missing:
        liveness.find("dmeo", base)

    assert missing.value.hint == "running: demo"


@pytest.mark.parametrize("name", ["demo", None])
def test_a_dead_lab_says_that_it_died_and_where_to_look(base: Path, name: str | None) -> None:
    state, lock = liveness.acquire("demo", base)
    os.close(lock)

    with pytest.raises(Unavailable, match="lab demo has died") as dead:
        liveness.find(name, base)

    assert "labnet logs --lab demo" in dead.value.hint
    assert liveness.find(name, base, dead_too=True) == state


def test_removal_frees_the_name_and_leaves_nothing(base: Path) -> None:
    state, lock = liveness.acquire("demo", base)
    os.close(lock)

    liveness.remove(state)
    liveness.sweep(base)

    assert not base.exists()


def test_a_half_removed_directory_is_no_lab_and_is_swept(base: Path, demo: StateDirectory) -> None:
    (base / ".gone-other-1" / "pki").mkdir(parents=True)

    assert [state.name for state, _ in liveness.labs(base)] == ["demo"]
    liveness.sweep(base)

    assert [path.name for path in base.iterdir()] == ["demo"]
