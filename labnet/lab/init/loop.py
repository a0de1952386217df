"""PID 1's event loop: descriptors, timers, and what is done when nothing else is.

One thread, one ``selectors`` poll. A callback must return soon: everything that takes
longer than a millisecond or two happens in a fork whose pipe is one more descriptor
here. Without timers and idle work the loop sleeps until something happens.
"""

from __future__ import annotations

import heapq
import selectors
from collections.abc import Callable
from itertools import count

from labnet.clock import Clock

Callback = Callable[[], None]
_MOMENT = 0.004
"""Seconds of quiet before idle work: a command line between two requests takes less."""


class Loop:
    """Calls back when descriptors are ready, when time has come, or when idle."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Callback]] = []
        self._cancelled: set[int] = set()
        self._numbers = count()
        self._idle: list[Callback] = []
        self._under_way = 0

    def on_readable(self, descriptor: int, callback: Callback) -> None:
        """Call back whenever ``descriptor`` can be read, until :meth:`forget`."""
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def on_writable(self, descriptor: int, callback: Callback) -> None:
        """Call back whenever ``descriptor`` can be written, until :meth:`forget`."""
        self._selector.register(descriptor, selectors.EVENT_WRITE, callback)

    def forget(self, descriptor: int) -> None:
        """Stop watching ``descriptor``; before it is closed."""
        self._selector.unregister(descriptor)

    def later(self, seconds: float, callback: Callback) -> int:
        """Call back once after ``seconds``; return a number for :meth:`cancel`."""
        number = next(self._numbers)
        heapq.heappush(self._timers, (self.clock.monotonic() + seconds, number, callback))
        return number

    def cancel(self, number: int) -> None:
        """Forget a timer that has not fired; one that has must not be cancelled."""
        self._cancelled.add(number)

    def when_idle(self, callback: Callback) -> None:
        """Call back once, when for a moment nothing happens; in order of asking.

        Not between :meth:`begin` and :meth:`end`: whoever waits for a fork's report
        should not wait for idle work as well.
        """
        self._idle.append(callback)

    def begin(self) -> None:
        """Something is under way whose end will be heard of."""
        self._under_way += 1

    def end(self) -> None:
        """It has ended."""
        self._under_way -= 1

    def turn(self) -> None:
        """Wait for something and do it: one pass."""
        ready = self._selector.select(self._timeout())
        for key, _ in ready:
            # An earlier callback of this pass may have dropped this descriptor.
            if self._selector.get_map().get(key.fd) is not None:
                key.data()
        if not self._fire() and not ready and self._idle and not self._under_way:
            self._idle.pop(0)()

    def _timeout(self) -> float | None:
        if self._idle and not self._under_way:
            return _MOMENT
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - self.clock.monotonic())

    def _fire(self) -> bool:
        fired = False
        while self._timers and self._timers[0][0] <= self.clock.monotonic():
            _, number, callback = heapq.heappop(self._timers)
            if number in self._cancelled:
                self._cancelled.discard(number)
                continue
            callback()
            fired = True
        return fired
