"""Events leave the kubelet at a pace that leaves the API server to the pods."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Thread
from typing import Any

import pytest

from labnet.clock import FakeClock, SystemClock
from labnet.node.kubelet.pacing import WAITING_MAX, Paced


class Heard:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def say(self, obj: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        self.reasons.append(reason)


def say(paced: Paced, count: int) -> None:
    for number in range(count):
        paced.say({}, "Normal", str(number), "")


def test_a_burst_goes_at_once_and_the_rest_ten_a_second() -> None:
    clock, heard = FakeClock(), Heard()
    paced = Paced(heard, clock)
    say(paced, 45)
    assert paced.step() == pytest.approx(0.1)
    assert len(heard.reasons) == 20
    clock.advance(1)
    paced.step()
    assert len(heard.reasons) == 30
    clock.advance(10)
    assert paced.step() is None
    assert heard.reasons == [str(number) for number in range(45)]


def test_too_many_are_dropped_and_the_end_loses_none_of_the_others() -> None:
    heard = Heard()
    paced = Paced(heard, FakeClock())
    say(paced, WAITING_MAX + 7)
    paced.close()
    assert len(heard.reasons) == WAITING_MAX


def test_it_runs_until_it_is_closed() -> None:
    heard = Heard()
    paced = Paced(heard, SystemClock())
    thread = Thread(target=paced.run)
    thread.start()
    say(paced, 5)
    paced.close()
    thread.join(5)
    assert not thread.is_alive()
    assert len(heard.reasons) == 5
