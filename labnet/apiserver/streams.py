"""The loop of open watches: one thread, however many there are.

A watch lives for minutes and sends little. It must not occupy a worker thread, or a few
dozen `kubectl get -w` would stop the API for everybody. So its socket leaves the worker
and comes here: bytes are queued by whoever has news, and one thread sends them as fast
as each client reads. A client that does not read is cut off when its queue is full; it
will list again, which is what clients of Kubernetes do.
"""

from __future__ import annotations

import logging
import os
import selectors
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from socket import SHUT_RDWR, socket

from labnet.clock import Clock

QUEUE_LIMIT = 4 * 1024 * 1024  # bytes a client may lag behind, beside its initial list
END = b"0\r\n\r\n"  # the last chunk of a chunked body
_SEND_AT_ONCE = 256 * 1024
TICK = 60.0  # seconds between two calls of ``Stream.on_tick``

LOG = logging.getLogger("kube-apiserver")


class Stream:
    """One client's open response. ``push`` may be called from any thread."""

    def __init__(
        self,
        loop: StreamLoop,
        sock: socket,
        *,
        ends: float,
        on_close: Callable[[], None],
        on_tick: Callable[[], None] | None = None,
    ) -> None:
        self.sock = sock
        self.ends = ends  # on the monotonic clock
        self.ticks = 0.0
        self.on_close = on_close
        self.on_tick = on_tick
        self.closed = False
        self._loop = loop
        self._lock = threading.Lock()
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._limit = QUEUE_LIMIT
        self._ending = False
        self._scheduled = False
        self._unsent = memoryview(b"")

    def begin(self, data: Iterable[bytes]) -> None:
        """Queue what the client asked for itself; it does not count as lagging behind."""
        with self._lock:
            self._queue.extend(data)
            self._queued = sum(map(len, self._queue))
            self._limit = QUEUE_LIMIT + self._queued
            self._scheduled = True
        self._loop.schedule(self)

    def push(self, data: bytes) -> None:
        """Queue ``data``; too much of it unsent ends the stream."""
        with self._lock:
            if self._ending or self.closed:
                return
            self._queue.append(data)
            self._queued += len(data)
            if self._queued > self._limit:
                LOG.warning("a watch is cut off: its client does not read")
                self._queue.clear()
                self._ending = True
            wake = not self._scheduled
            self._scheduled = True
        if wake:
            self._loop.schedule(self)

    def end(self) -> None:
        """Finish the body and close once everything queued is sent."""
        self.push(END)
        with self._lock:
            self._ending = True

    def flush(self) -> bool:
        """Send what the socket takes (loop thread); return whether all of it went."""
        while self._unsent or self._next():
            try:
                sent = self.sock.send(self._unsent)
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError, BlockingIOError):
                return False
            self._unsent = self._unsent[sent:]
        return True

    def _next(self) -> bool:
        with self._lock:
            self._scheduled = bool(self._queue)
            parts: list[bytes] = []
            size = 0
            while self._queue and size < _SEND_AT_ONCE:
                parts.append(self._queue.popleft())
                size += len(parts[-1])
            self._queued -= size
            self._unsent = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
            return bool(parts)

    @property
    def finished(self) -> bool:
        """Whether the stream was ended and everything is sent."""
        with self._lock:
            return self._ending and not self._queue and not self._unsent


class StreamLoop:
    """Sends for all streams from one thread; a context manager or ``start``/``stop``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._ready: deque[Stream] = deque()
        self._streams: set[Stream] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="streams", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread.start()

    def stop(self) -> None:
        """Close every stream and end the thread."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        if self._thread.is_alive():
            self._thread.join()

    def __len__(self) -> int:
        return len(self._streams)

    def schedule(self, stream: Stream) -> None:
        """Have the loop look at ``stream`` soon."""
        self._ready.append(stream)
        with suppress(OSError):  # the loop has ended
            os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        while not self._stopping:
            for key, mask in self._selector.select(self._until_next()):
                if key.data is None:
                    os.eventfd_read(self._wake)
                else:
                    self._serve(key.data, mask)
            for _ in range(len(self._ready)):
                self._take(self._ready.popleft())
            self._keep_time()
        for stream in tuple(self._streams):
            self._drop(stream)
        self._selector.close()
        os.close(self._wake)

    def _take(self, stream: Stream) -> None:
        if stream.closed:
            return
        if stream not in self._streams:
            stream.sock.setblocking(False)
            self._selector.register(stream.sock, selectors.EVENT_READ, stream)
            self._streams.add(stream)
            stream.ticks = self._clock.monotonic() + TICK
        self._serve(stream, selectors.EVENT_WRITE)

    def _serve(self, stream: Stream, mask: int) -> None:
        try:
            if mask & selectors.EVENT_READ and self._hung_up(stream):
                self._drop(stream)
                return
            done = stream.flush()
        except OSError:  # the client went away
            self._drop(stream)
            return
        if stream.finished:
            self._drop(stream)
            return
        wanted = selectors.EVENT_READ | (0 if done else selectors.EVENT_WRITE)
        if self._selector.get_key(stream.sock).events != wanted:
            self._selector.modify(stream.sock, wanted, stream)

    @staticmethod
    def _hung_up(stream: Stream) -> bool:
        """Whether the client closed; what it sends on a watch means nothing."""
        try:
            return stream.sock.recv(4096) == b""
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return False

    def _drop(self, stream: Stream) -> None:
        stream.closed = True
        self._streams.discard(stream)
        with suppress(KeyError, ValueError):
            self._selector.unregister(stream.sock)
        with suppress(OSError):
            stream.sock.shutdown(SHUT_RDWR)
        stream.sock.close()
        stream.on_close()

    def _until_next(self) -> float | None:
        """Return the seconds to the next end or tick; None without streams."""
        if not self._streams:
            return None
        soonest = min(min(s.ends, s.ticks) for s in self._streams)
        return max(0.0, soonest - self._clock.monotonic())

    def _keep_time(self) -> None:
        now = self._clock.monotonic()
        for stream in tuple(self._streams):
            if now >= stream.ends:
                stream.ends = now + TICK  # the time it gets to read the rest
                stream.end()
            elif now >= stream.ticks:
                stream.ticks = now + TICK
                if stream.on_tick is not None:
                    stream.on_tick()
