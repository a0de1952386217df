"""Bytes from socket to socket without a copy: splice, through a pipe.

``splice`` moves pages, not bytes: what the network card (or veth) delivered is linked into
a pipe and from there into the other socket's send queue, and the process never sees it.
One of its two ends must be a pipe, so a pipe stands between the sockets. It is needed only
while something is in it: almost always what was read can be written at once, so a few
pipes serve thousands of connections. A pipe stays with a direction only while that
direction's receiver is full, and then nothing more is read from the sender: its own send
queue fills, and so the brake reaches the program that sends (back-pressure).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket

SIZE = 1 << 20  # bytes of a pipe, as much as an ordinary user may ask for
_SPARE = 8  # pipes kept for the next one who needs one
_TURNS = 16  # rounds before somebody else gets a turn: at most 16 MiB
_HOW = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK


class Pipe:
    """A pipe, and how many bytes are in it."""

    __slots__ = ("held", "reading", "writing")

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.held = 0
        # An ordinary user's pipes share 64 MiB (fs.pipe-user-pages-soft); a small one works.
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, SIZE)

    def close(self) -> None:
        """Close both ends; what is in it is lost."""
        os.close(self.reading)
        os.close(self.writing)


class Pipes:
    """Empty pipes, lent out."""

    def __init__(self) -> None:
        self._spare: list[Pipe] = []

    def take(self) -> Pipe:
        """Return an empty pipe. Raises ``OSError`` when there are no descriptors left."""
        return self._spare.pop() if self._spare else Pipe()

    def give(self, pipe: Pipe) -> None:
        """Take a pipe back; one that is not empty is thrown away."""
        if pipe.held or len(self._spare) >= _SPARE:
            pipe.close()
        else:
            self._spare.append(pipe)

    def close(self) -> None:
        """Close those that are not lent."""
        while self._spare:
            self._spare.pop().close()


class Direction:
    """What one socket sends and the other is to get."""

    __slots__ = ("_pipe", "_pipes", "_sink", "_source", "ended")

    def __init__(self, source: socket.socket, sink: socket.socket, pipes: Pipes) -> None:
        self._source = source
        self._sink = sink
        self._pipes = pipes
        self._pipe: Pipe | None = None
        self.ended = False  # the sender said so, and the receiver was told

    @property
    def waits(self) -> bool:
        """Whether the receiver is full."""
        return self._pipe is not None

    def pump(self) -> bool:
        """Move what can be moved now; True if more may follow at once.

        Raises ``OSError`` when one of the two is gone.
        """
        for _ in range(_TURNS):
            if (self._pipe is None and not self._fill()) or not self._drain():
                return False
        return True

    def close(self) -> None:
        """Let go of the pipe."""
        if self._pipe:
            self._pipes.give(self._pipe)
            self._pipe = None

    def _fill(self) -> bool:
        """Read into a pipe; False if there is nothing to read, now or ever."""
        if self.ended:
            return False
        pipe = self._pipes.take()
        try:
            pipe.held = os.splice(self._source.fileno(), pipe.writing, SIZE, flags=_HOW)
        except BlockingIOError:
            return False
        else:
            if pipe.held:
                self._pipe = pipe
            else:
                self.ended = True
                self._sink.shutdown(socket.SHUT_WR)
            return bool(pipe.held)
        finally:
            if self._pipe is None:
                self._pipes.give(pipe)

    def _drain(self) -> bool:
        """Write what is in the pipe; False if the receiver takes no more now."""
        pipe = self._pipe
        assert pipe is not None
        while pipe.held:
            try:
                pipe.held -= os.splice(pipe.reading, self._sink.fileno(), pipe.held, flags=_HOW)
            except BlockingIOError:
                return False
        self._pipe = None
        self._pipes.give(pipe)
        return True
