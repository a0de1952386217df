"""When kube-proxy looks, with real threads and short waits."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from labnet.errors import OpFailed
from labnet.node.kube_proxy import loop as module
from labnet.node.kube_proxy.loop import Loop

DEADLINE = 5.0


class Passes:
    """Counts passes; each may do something first."""

    def __init__(self) -> None:
        self.count = 0
        self.happened = threading.Condition()
        self.fail = False

    def __call__(self) -> None:
        with self.happened:
            self.count += 1
            self.happened.notify_all()
        if self.fail:
            raise OpFailed("iptables-restore: no")

    def reach(self, count: int) -> bool:
        with self.happened:
            return self.happened.wait_for(lambda: self.count >= count, DEADLINE)


def running(loop: Loop) -> Callable[[], None]:
    thread = threading.Thread(target=loop.run)
    thread.start()

    def end() -> None:
        loop.stop()
        thread.join(DEADLINE)
        assert not thread.is_alive()

    return end


def test_it_looks_at_once_and_again_when_woken() -> None:
    passes = Passes()
    loop = Loop(passes, gather=0.001, resync=60)
    end = running(loop)
    assert passes.reach(1)
    loop.wake()
    assert passes.reach(2)
    end()


def test_a_burst_is_one_pass() -> None:
    passes = Passes()
    loop = Loop(passes, gather=0.1, resync=60)
    end = running(loop)
    assert passes.reach(1)
    for _ in range(50):
        loop.wake()
    assert passes.reach(2)
    end()
    assert passes.count <= 3


def test_without_changes_it_looks_now_and_then() -> None:
    passes = Passes()
    end = running(Loop(passes, gather=0, resync=0.01))
    assert passes.reach(4)
    end()


def test_a_failed_pass_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    passes = Passes()
    passes.fail = True
    assert module.RETRY < module.RESYNC
    loop = Loop(passes, gather=0, resync=60, retry=0.01)
    end = running(loop)
    assert passes.reach(2)
    end()
    assert "iptables-restore: no" in caplog.text
