"""Reading and following component logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from labnet.errors import NotFound
from labnet.lab import logs
from labnet.lab.state import StateDirectory


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    state = StateDirectory(tmp_path / "demo")
    state.logs.mkdir(parents=True)
    for name in ("etcd", "kubelet@node1", "kubelet@node2"):
        (state.logs / f"{name}.log").write_text("one\ntwo\nthree\n")
    return state


def test_a_component_is_found_by_name_or_by_its_only_host(state: StateDirectory) -> None:
    (state.logs / "flanneld@node1.log").touch()

    assert logs.find(state, "kubelet@node2").name == "kubelet@node2.log"
    assert logs.find(state, "flanneld").name == "flanneld@node1.log"


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("kubelet", "did you mean kubelet@node1 or kubelet@node2?"),
        ("etdc", "did you mean etcd?"),
        ("xyz", "there are: etcd, kubelet@node1, kubelet@node2"),
    ],
)
def test_an_unknown_component_is_answered_with_what_there_is(
    state: StateDirectory, asked: str, hint: str
) -> None:
    with pytest.raises(NotFound, match="has no log of") as missing:
        logs.find(state, asked)

    assert missing.value.hint == hint


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "one\ntwo\nthree\n"), (2, "two\nthree\n"), (0, ""), (9, "one\ntwo\nthree\n")],
)
def test_tail_gives_the_last_lines(state: StateDirectory, count: int | None, text: str) -> None:
    assert logs.last_lines(state.logs / "etcd.log", count) == text.encode()


def test_following_goes_on_with_what_is_appended_and_ends_with_the_lab(
    state: StateDirectory,
) -> None:
    path = state.logs / "etcd.log"

    def lives() -> Iterator[bool]:
        with path.open("a") as file:
            file.write("four\n")
        yield True
        with path.open("a") as file:
            file.write("five\n")
        yield False

    alive = lives()
    blocks = list(logs.follow(path, 1, alive=lambda: next(alive)))

    assert b"".join(blocks) == b"three\nfour\nfive\n"
