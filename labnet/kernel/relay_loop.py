"""One thread that waits for many sockets at once: epoll, timers, and a door for other threads.

epoll tells which of thousands of descriptors became ready, at a cost that does not depend
on how many are idle. Sockets are watched *edge-triggered*: an event says that something
changed since the last look, so whoever is called must go on until the kernel says EAGAIN.
In exchange nothing has to be told to the kernel when a socket is full or empty.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger("kube-proxy")

Ready = Callable[[int], None]  # gets the epoll event mask
Call = Callable[[], None]

EDGE = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
FAILED = select.EPOLLERR | select.EPOLLHUP


class Timer:
    """A call that will be made; cancel it or not."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call: Call | None = call

    def cancel(self) -> None:
        """Make sure the call is not made."""
        self.call = None


class Loop:
    """Calls back from its own thread. All methods but ``post`` and ``stop`` belong to it."""

    def __init__(self, name: str) -> None:
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._ready: dict[int, Ready] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._posted: deque[Call] = deque()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Let the thread make the calls that were posted and end; wait for it."""
        self.post(self._end)
        if self._thread.is_alive():
            self._thread.join()
        self._epoll.close()
        os.close(self._wake)

    def post(self, call: Call) -> None:
        """Have ``call`` made by the loop soon; callable from any thread."""
        self._posted.append(call)
        os.eventfd_write(self._wake, 1)

    def watch(self, fd: int, events: int, ready: Ready) -> None:
        """Call ``ready`` whenever one of ``events`` happens to ``fd``."""
        self._ready[fd] = ready
        self._epoll.register(fd, events)

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``, before it is closed."""
        if self._ready.pop(fd, None):
            self._epoll.unregister(fd)

    def after(self, seconds: float, call: Call) -> Timer:
        """Have ``call`` made after ``seconds``."""
        timer = Timer(call)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), timer))
        return timer

    def again(self, call: Call) -> None:
        """Have ``call`` made once everybody else who is ready has had a turn."""
        self._posted.append(call)

    def _end(self) -> None:
        self._stopped = True

    def _run(self) -> None:
        while not self._stopped:
            for fd, events in self._epoll.poll(self._patience()):
                if fd == self._wake:
                    os.eventfd_read(fd)
                elif ready := self._ready.get(fd):
                    _guarded(ready, events)
            for _ in range(len(self._posted)):
                _guarded(self._posted.popleft())
            self._ring()

    def _patience(self) -> float | None:
        if self._posted:
            return 0
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _ring(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            call = heapq.heappop(self._timers)[2].call
            if call:
                _guarded(call)


def _guarded(call: Callable[..., None], *arguments: int) -> None:
    """Make a call that must not end the loop: one connection's trouble is its own."""
    try:
        call(*arguments)
    except OSError as error:
        log.warning("relay: %s", error)
