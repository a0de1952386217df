"""Messages with file descriptors, over a local socket that keeps their boundaries.

``SOCK_SEQPACKET`` is connection-oriented like a stream and keeps datagrams apart, so one
``recvmsg`` is one message and end of file means that the peer is gone. Descriptors
travel as ``SCM_RIGHTS``: the kernel installs duplicates of them at the receiver.

A datagram must fit into the socket's buffer, whose limit an ordinary user cannot raise.
What is longer than 64 kB goes into a memfd that rides along as the last descriptor,
announced by the datagram ``@``; so a message has no limit that anybody meets.

:class:`Client` is what components use: each call takes an idle connection or opens one,
so that threads never wait for one another's replies.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from labnet.errors import Unavailable

INLINE_MAX = 64 * 1024
FDS_MAX = 32
_IN_MEMFD = b"@"
_IDLE_MAX = 8
_BYTES_PER_FD = array.array("i").itemsize


def send(connection: socket.socket, payload: bytes, fds: Sequence[int] = ()) -> None:
    """Send one message with descriptors, which stay the caller's."""
    if len(payload) <= INLINE_MAX:
        _send(connection, payload, fds)
        return
    overflow = _memfd(payload)
    try:
        _send(connection, _IN_MEMFD, (*fds, overflow))
    finally:
        os.close(overflow)


def _send(connection: socket.socket, payload: bytes, fds: Sequence[int]) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    connection.sendmsg([payload], rights, socket.MSG_NOSIGNAL)


def _memfd(payload: bytes) -> int:
    descriptor = os.memfd_create("message", os.MFD_CLOEXEC)
    rest = memoryview(payload)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    return descriptor


def receive(connection: socket.socket) -> tuple[bytes, tuple[int, ...]]:
    """Return the next message and its descriptors (close-on-exec); ``b""`` at the end."""
    payload, ancillary, flags, _ = connection.recvmsg(
        INLINE_MAX, socket.CMSG_SPACE(FDS_MAX * _BYTES_PER_FD), socket.MSG_CMSG_CLOEXEC
    )
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % _BYTES_PER_FD])
    received = tuple(fds)
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        close_all(received)
        raise Unavailable("a message was longer, or had more descriptors, than is allowed")
    if payload == _IN_MEMFD and received:
        return _contents(received[-1]), received[:-1]
    return payload, received


def _contents(descriptor: int) -> bytes:
    """Read a memfd from its start, wherever the sender left the shared offset."""
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read()


def close_all(fds: Sequence[int]) -> None:
    """Close descriptors that nobody wants."""
    for descriptor in fds:
        os.close(descriptor)


def connect(path: Path) -> socket.socket:
    """Return a connection to the socket at ``path``. Raises ``Unavailable``.

    The path goes through a descriptor of its directory: the address of a unix socket
    may have 107 bytes only, and state directories can lie deeper.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            connection.connect(f"/proc/self/fd/{directory}/{path.name}")
        finally:
            os.close(directory)
    except OSError as error:
        connection.close()
        raise Unavailable(
            f"{path}: nobody answers: {error.strerror}", hint="is the lab running? labnet ls"
        ) from error
    return connection


def listen(path: Path, backlog: int = 128) -> socket.socket:
    """Return a non-blocking listener at ``path``, for this user only; a stale one goes."""
    listener = socket.socket(
        socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    )
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(backlog)
    return listener


class Client:
    """Calls to one server, from any number of threads; opens connections as needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._busy: set[socket.socket] = set()
        self._closed = False

    def call(
        self, payload: bytes, fds: Sequence[int] = (), timeout: float | None = None
    ) -> tuple[bytes, tuple[int, ...]]:
        """Send a request, return the reply. Raises ``Unavailable``: no server, or timeout."""
        connection = self._take()
        whole = False
        try:
            connection.settimeout(timeout)
            with self._explained():
                send(connection, payload, fds)
                reply, received = receive(connection)
            self._check(reply)
            whole = True
            return reply, received
        finally:
            self._give_back(connection, whole=whole)

    def stream(self, payload: bytes) -> tuple[bytes, Iterator[bytes]]:
        """Send a request, return the reply and an iterator over what follows."""
        connection = self._take()
        try:
            connection.settimeout(None)
            with self._explained():
                send(connection, payload)
                reply, _ = receive(connection)
            self._check(reply)
        except BaseException:
            self._give_back(connection, whole=False)
            raise
        return reply, self._following(connection)

    def _following(self, connection: socket.socket) -> Iterator[bytes]:
        try:
            while True:
                with self._explained():
                    message, fds = receive(connection)
                close_all(fds)
                self._check(message)
                yield message
        finally:
            self._give_back(connection, whole=False)

    def close(self) -> None:
        """Close all connections, those in use too: their callers get ``Unavailable``."""
        with self._lock:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()
            for connection in self._busy:  # closed by whoever uses it
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _take(self) -> socket.socket:
        with self._lock:
            if self._closed:
                raise Unavailable(f"{self._path}: the connection was closed")
            connection = self._idle.pop() if self._idle else None
        connection = connection or connect(self._path)
        with self._lock:
            self._busy.add(connection)
        return connection

    def _give_back(self, connection: socket.socket, *, whole: bool) -> None:
        with self._lock:
            self._busy.discard(connection)
            if whole and not self._closed and len(self._idle) < _IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _check(self, message: bytes) -> None:
        if not message:
            raise Unavailable(
                f"{self._path}: the lab's PID 1 closed the connection",
                hint="has the lab died? labnet ls",
            )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise Unavailable(f"{self._path}: no answer in time") from error
        except OSError as error:
            raise Unavailable(f"{self._path}: {error.strerror}") from error
