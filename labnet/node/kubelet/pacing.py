"""Events in good order: nobody waits for them, so they wait for everybody.

Each start of a container is three events, and a hundred pods that start at once would
give the API server twice the work, while it has their statuses and endpoints to take.
So events leave the kubelet at ten a second after a burst of twenty, as the real one's
``eventRecordQPS`` has it; in quiet times nobody notices. More than two thousand waiting
are too many to be read, and the newest are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from threading import Condition
from typing import Any, Protocol

from labnet.clock import Clock

PER_SECOND, BURST, WAITING_MAX = 10.0, 20.0, 2000

Said = tuple[Mapping[str, Any], str, str, str]


class Recorder(Protocol):
    """Whoever writes events, see ``labnet.client.events``."""

    def say(self, obj: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """Queue an event about ``obj``; never waits."""


class Paced:
    """Hands events on to a recorder at a steady pace, from the thread in :meth:`run`."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder, self._clock = recorder, clock
        self._waiting: deque[Said] = deque()
        self._changed = Condition()
        self._budget, self._counted = BURST, clock.monotonic()
        self._closed = False

    def say(self, obj: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """Queue an event about ``obj``; never waits."""
        with self._changed:
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append((obj, kind, reason, message))
                self._changed.notify()

    def run(self) -> None:
        """Hand events on until closed."""
        while not self._closed:
            self._pause(self.step())

    def step(self) -> float | None:
        """Hand on what may go now; return the seconds until more may, None: none waits."""
        with self._changed:
            now = self._clock.monotonic()
            self._budget = min(BURST, self._budget + (now - self._counted) * PER_SECOND)
            self._counted = now
            while self._waiting and self._budget >= 1:
                self._budget -= 1
                self._recorder.say(*self._waiting.popleft())
            return (1 - self._budget) / PER_SECOND if self._waiting else None

    def close(self) -> None:
        """Hand on whatever waits, and make :meth:`run` return."""
        with self._changed:
            while self._waiting:
                self._recorder.say(*self._waiting.popleft())
            self._closed = True
            self._changed.notify()

    def _pause(self, seconds: float | None) -> None:
        with self._changed:
            if not self._closed and (seconds is not None or not self._waiting):
                self._changed.wait(seconds)
