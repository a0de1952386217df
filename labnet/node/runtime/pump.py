"""The log pump: one thread that carries every container's output to its file.

A container writes into two pipes. Their read ends are here *and* at the zygote: when
the kubelet dies a container keeps a reader, so it is not killed by SIGPIPE, and what it
wrote meanwhile waits in the pipe for the next kubelet. The end of a pipe comes when the
last process of the container is gone.
"""

from __future__ import annotations

import os
import select
from pathlib import Path
from threading import Condition, Lock, Thread

from labnet.clock import Clock
from labnet.node.runtime.logs import Writer

CHUNK = 65536


class _Log:
    """One container's file and which of its two pipes are still open."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.open = 2


class LogPump:
    """Reads pipes by epoll in a daemon thread; all methods from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._epoll = select.epoll()
        self._lock = Lock()
        self._pipes: dict[int, tuple[str, _Log]] = {}
        self._open: dict[Path, _Log] = {}
        self._written = Condition(self._lock)
        self._thread: Thread | None = None

    def add(self, path: Path, stdout: int, stderr: int) -> None:
        """Carry what comes from two pipes to ``path``; takes the descriptors over."""
        with self._lock:
            log = self._open[path] = _Log(Writer(path, self._clock))
            for fd, stream in ((stdout, "stdout"), (stderr, "stderr")):
                os.set_blocking(fd, False)
                self._pipes[fd] = (stream, log)
                self._epoll.register(fd, select.EPOLLIN)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="log-pump", daemon=True)
                self._thread.start()

    def wait(self, timeout: float) -> None:
        """Return when anything was written to any log, or after ``timeout`` seconds."""
        with self._written:
            self._written.wait(timeout)

    def ended(self, path: Path) -> bool:
        """Return whether nothing more will come to ``path``."""
        with self._lock:
            return path not in self._open

    def _run(self) -> None:
        while True:
            for fd, _ in self._epoll.poll():
                self._carry(fd)

    def _carry(self, fd: int) -> None:
        with self._written:
            stream, log = self._pipes[fd]
            try:
                data = os.read(fd, CHUNK)
            except BlockingIOError:
                return
            try:
                if data:
                    log.writer.write(stream, data)
                else:
                    log.writer.end(stream)
            except OSError:
                pass  # the disk is full or the pod's directory is gone: output is lost, not held
            if not data:
                self._drop(fd, log)
            self._written.notify_all()

    def _drop(self, fd: int, log: _Log) -> None:
        self._epoll.unregister(fd)
        os.close(fd)
        del self._pipes[fd]
        log.open -= 1
        if log.open == 0:
            log.writer.close()
            self._open = {path: other for path, other in self._open.items() if other is not log}
