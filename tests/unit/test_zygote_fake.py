"""The fake zygote answers as PID 1 does."""

from __future__ import annotations

import select
from collections.abc import Iterator

import pytest

from labnet.errors import AlreadyExists, NotFound, Unavailable
from labnet.sandbox.spec import ContainerSpec, ExecSpec, SandboxSpec
from labnet.sandbox.zygote import Processes
from labnet.sandbox.zygote_fake import FakeZygote


@pytest.fixture
def zygote() -> Iterator[FakeZygote]:
    fake = FakeZygote()
    yield fake
    fake.close()


SANDBOX = SandboxSpec("uid/0", "node1", "web")
CONTAINER = ContainerSpec("uid/c/0", "node1", "uid/0", ("nginx",))
STDIO = (0, 1, 2)


def readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def test_it_offers_what_the_kubelet_asks_for(zygote: FakeZygote) -> None:
    offered: Processes = zygote
    assert offered.list() == ()


def test_a_container_ends_when_the_test_says_so(zygote: FakeZygote) -> None:
    zygote.sandbox(SANDBOX)
    watch = zygote.watch("node1")
    started = zygote.container(CONTAINER, STDIO)
    assert not readable(started.pidfd)
    zygote.end("uid/c/0", code=3)
    assert readable(started.pidfd)
    ended = next(watch)
    assert ended.id == "uid/c/0"
    assert ended.exit is not None
    assert ended.exit.code == 3


def test_a_container_wants_its_sandbox_and_a_free_id(zygote: FakeZygote) -> None:
    with pytest.raises(NotFound, match="sandbox uid/0 is not running"):
        zygote.container(CONTAINER, STDIO)
    zygote.sandbox(SANDBOX)
    zygote.container(CONTAINER, STDIO)
    with pytest.raises(AlreadyExists):
        zygote.container(CONTAINER, STDIO)


def test_an_exec_ends_with_its_code_and_is_forgotten_when_waited_for(zygote: FakeZygote) -> None:
    zygote.sandbox(SANDBOX)
    zygote.container(CONTAINER, STDIO)
    zygote.exec_codes[("false",)] = 1
    started = zygote.exec(ExecSpec(("false",), container="uid/c/0"), STDIO)
    process = zygote.wait(started.id)
    assert process.exit is not None
    assert process.exit.code == 1
    with pytest.raises(NotFound):
        zygote.wait(started.id)


def test_kill_ends_and_forget_drops(zygote: FakeZygote) -> None:
    zygote.sandbox(SANDBOX)
    zygote.signal("uid/0", 15)
    with pytest.raises(Unavailable):
        zygote.wait("uid/0")
    zygote.signal("uid/0", 9)
    end = zygote.wait("uid/0").exit
    assert end is not None
    assert (end.code, end.signal) == (137, 9)
    zygote.forget("uid/0")
    assert zygote.list() == ()
