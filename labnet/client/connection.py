"""Connections to one HTTP server, kept open and lent out.

A request takes an idle connection or makes one, and gives it back when its answer is
read, so there are as many as requests ever ran at once. A server may close an idle
connection at any moment; whoever takes one looks first whether that has happened, and
only a request that may safely happen twice is sent again when it was in between.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from labnet.errors import Unavailable

_DEAD = (http.client.HTTPException, OSError, ValueError)
_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE", "HEAD"})
_PROBES = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent: ``target`` is path and query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, read to its end."""

    code: int
    headers: Mapping[str, str]
    body: bytes


class Connections:
    """The connections to ``url`` (``https://host:port``); safe to use from many threads."""

    def __init__(self, url: str, context: ssl.SSLContext | None, timeout: float) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port
        self._context = context if parts.scheme == "https" else None
        self._timeout = timeout
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._closed = False
        self.url = url

    def exchange(self, request: Request) -> Answer:
        """Send ``request`` and read the whole answer; raises ``Unavailable``."""
        connection, used = self._take()
        try:
            return self._try(connection, request)
        except _DEAD as error:
            connection.close()
            if not (used and request.method in _IDEMPOTENT):
                raise self._unavailable(error) from error
        connection = self._new()
        try:
            return self._try(connection, request)
        except _DEAD as error:
            connection.close()
            raise self._unavailable(error) from error

    def _try(self, connection: http.client.HTTPConnection, request: Request) -> Answer:
        _connect(connection)
        response = _send(connection, request)
        body = response.read()
        answer = Answer(response.status, dict(response.getheaders()), body)
        self._give_back(connection, response.will_close)
        return answer

    def stream(self, request: Request) -> Stream:
        """Send ``request`` (a GET) and return the open answer; it keeps its connection."""
        connection, used = self._take()
        try:
            return self._opened(connection, request)
        except _DEAD as error:
            connection.close()
            if not used:
                raise self._unavailable(error) from error
        connection = self._new()
        try:
            return self._opened(connection, request)
        except _DEAD as error:
            connection.close()
            raise self._unavailable(error) from error

    def _opened(self, connection: http.client.HTTPConnection, request: Request) -> Stream:
        sock = _connect(connection)
        response = _send(connection, request)
        sock.settimeout(None)  # silence is normal; TCP's probes watch the peer
        return Stream(self.url, sock, connection, response)

    def close(self) -> None:
        """Close what is idle now, and what is in use when it is given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _new(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=self._timeout, context=self._context
        )

    def _take(self) -> tuple[http.client.HTTPConnection, bool]:
        """Return a connection, and whether it was used before."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if not _hung_up(connection.sock):
                return connection, True
            connection.close()
        return self._new(), False

    def _give_back(self, connection: http.client.HTTPConnection, will_close: bool) -> None:
        with self._lock:
            if not (will_close or self._closed):
                self._idle.append(connection)
                return
        connection.close()

    def _unavailable(self, error: Exception) -> Unavailable:
        return Unavailable(f"{self.url}: {error or type(error).__name__}")


class Stream:
    """An answer that goes on: lines of bytes, until either side ends it."""

    def __init__(
        self,
        url: str,
        sock: socket.socket,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
    ) -> None:
        self._url = url
        self._connection = connection
        self._socket = sock
        self._response = response
        self.code = response.status

    def line(self) -> bytes:
        """Return the next line, b"" at the end; raises ``Unavailable`` when it breaks."""
        try:
            return self._response.readline()
        except _DEAD as error:
            raise Unavailable(f"{self._url}: {error or type(error).__name__}") from error

    def rest(self) -> bytes:
        """Return everything up to the end."""
        try:
            return self._response.read()
        except _DEAD as error:
            raise Unavailable(f"{self._url}: {error or type(error).__name__}") from error

    def hang_up(self) -> None:
        """Wake whoever reads, from any thread: they see the end of the stream."""
        try:
            # The plain socket's shutdown: TLS's would pull its state from under the reader.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        """Close the connection; only the thread that reads does this."""
        self._response.close()
        self._connection.close()


def _connect(connection: http.client.HTTPConnection) -> socket.socket:
    """Connect unless that is done; have the kernel notice a peer that falls silent."""
    if connection.sock is None:
        connection.connect()
        _notice_silence(connection.sock)
    return connection.sock


def _send(connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
    headers = dict(request.headers)
    connection.request(request.method, request.target, body=request.body, headers=headers)
    return connection.getresponse()


def _hung_up(sock: socket.socket) -> bool:
    """Whether an idle connection has something to say: that can only be its end."""
    poll = select.poll()
    poll.register(sock, select.POLLIN | select.POLLHUP)
    return bool(poll.poll(0))


def _notice_silence(sock: socket.socket | None) -> None:
    """Have the kernel ask a silent peer whether it is there: gone is noticed in 30 s."""
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in _PROBES:
        sock.setsockopt(socket.IPPROTO_TCP, option, seconds)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)
