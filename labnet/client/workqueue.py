"""Which objects to look at next: a queue that holds each key once.

Ten changes of a Deployment while it waits its turn are one pass over it; a change
while it is being looked at is one more pass afterwards, never two at a time. A pass
that failed comes back after a pause that doubles each time, up to a limit. This is
client-go's workqueue in small.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from labnet.clock import Clock, SystemClock

FIRST_PAUSE = 0.005  # seconds after the first failure
LONGEST_PAUSE = 30.0

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys waiting for a worker; safe to use from many threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._changed = threading.Condition()
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()  # in _ready, or to be put there when done
        self._working: set[K] = set()
        self._later: list[tuple[float, int, K]] = []  # heap of (due, tie, key)
        self._due: dict[K, float] = {}  # the earliest due time of each key in _later
        self._failures: dict[K, int] = {}
        self._ties = 0
        self._shut = False

    def add(self, key: K) -> None:
        """Ask for a pass over ``key``."""
        with self._changed:
            self._add(key)

    def _add(self, key: K) -> None:
        if self._shut or key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._working:
            self._ready.append(key)
            self._changed.notify()

    def add_after(self, key: K, seconds: float) -> None:
        """Ask for a pass in ``seconds``, or earlier where one was asked for already."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        with self._changed:
            if self._shut or self._due.get(key, due + 1) <= due:
                return
            self._due[key] = due
            self._ties += 1
            heapq.heappush(self._later, (due, self._ties, key))
            self._changed.notify()

    def retry(self, key: K) -> None:
        """Ask for a pass after a failure, later each time until ``forget``."""
        with self._changed:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
        self.add_after(key, min(FIRST_PAUSE * 2**failures, LONGEST_PAUSE))

    def forget(self, key: K) -> None:
        """Let the next failure of ``key`` be its first."""
        with self._changed:
            self._failures.pop(key, None)

    def take(self, timeout: float | None = None) -> K | None:
        """Return the next key, waiting for one; None at shutdown or after ``timeout``.

        The key is the caller's until ``done``.
        """
        until = None if timeout is None else self._clock.monotonic() + timeout
        with self._changed:
            while not self._shut:
                self._release_due()
                if self._ready:
                    key = self._ready.popleft()
                    self._waiting.discard(key)
                    self._working.add(key)
                    return key
                patience = self._patience(until)
                if patience is not None and patience <= 0 and not self._due_now():
                    return None
                self._changed.wait(patience)
            return None

    def done(self, key: K) -> None:
        """Give ``key`` back; it is queued again if somebody asked meanwhile."""
        with self._changed:
            self._working.discard(key)
            if key in self._waiting:
                self._ready.append(key)
                self._changed.notify()

    def shut_down(self) -> None:
        """Send every worker home."""
        with self._changed:
            self._shut = True
            self._changed.notify_all()

    def _due_now(self) -> bool:
        return bool(self._later) and self._later[0][0] <= self._clock.monotonic()

    def _release_due(self) -> None:
        while self._due_now():
            due, _, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self._add(key)

    def _patience(self, until: float | None) -> float | None:
        """Seconds to sleep at most: to the next delayed key or the caller's timeout."""
        ends = [t for t in (until, self._later[0][0] if self._later else None) if t is not None]
        return max(0.0, min(ends) - self._clock.monotonic()) if ends else None
