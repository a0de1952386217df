"""The work queue: each key once, delays, and back-off."""

from __future__ import annotations

import threading

from labnet.client.workqueue import LONGEST_PAUSE, WorkQueue
from labnet.clock import FakeClock


def drained(queue: WorkQueue[str]) -> list[str]:
    found = []
    while (key := queue.take(0)) is not None:
        found.append(key)
        queue.done(key)
    return found


def test_a_key_asked_for_many_times_is_taken_once() -> None:
    queue = WorkQueue[str]()
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert drained(queue) == ["a", "b"]


def test_a_key_asked_for_while_it_is_worked_on_comes_again_afterwards() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    assert queue.take() == "a"
    queue.add("a")
    assert queue.take(0) is None, "never two workers at one key"
    queue.done("a")
    assert drained(queue) == ["a"]


def test_a_delayed_key_comes_when_it_is_due() -> None:
    clock = FakeClock()
    queue = WorkQueue[str](clock)
    queue.add_after("a", 10)
    assert queue.take(0) is None
    clock.advance(10)
    assert drained(queue) == ["a"]


def test_the_earlier_of_two_delays_counts_and_once() -> None:
    clock = FakeClock()
    queue = WorkQueue[str](clock)
    for seconds in (20, 5, 30):
        queue.add_after("a", seconds)
    clock.advance(5)
    assert drained(queue) == ["a"]
    clock.advance(60)
    assert drained(queue) == []


def test_failures_pause_longer_and_longer_until_forgotten() -> None:
    clock = FakeClock()
    queue = WorkQueue[str](clock)

    def pause() -> float:
        queue.retry("a")
        waited = 0.0
        while not drained(queue):
            clock.advance(0.005)
            waited += 0.005
        return round(waited, 3)

    first, second, third = pause(), pause(), pause()
    assert first < second < third
    queue.forget("a")
    assert pause() == first


def test_a_pause_has_a_limit() -> None:
    clock = FakeClock()
    queue = WorkQueue[str](clock)
    for _ in range(30):
        queue.retry("a")
        clock.advance(LONGEST_PAUSE)
        assert drained(queue) == ["a"]


def test_a_waiting_worker_is_woken_by_a_key_by_a_delay_and_by_the_end() -> None:
    queue = WorkQueue[str]()
    taken: list[str | None] = []

    def work() -> None:
        while True:
            key = queue.take()
            taken.append(key)
            if key is None:
                return
            queue.done(key)

    worker = threading.Thread(target=work)
    worker.start()
    queue.add("now")
    queue.add_after("later", 0.02)
    threading.Timer(0.1, queue.shut_down).start()
    worker.join(5)
    assert taken == ["now", "later", None]
    queue.add("too late")
    assert queue.take(0) is None
