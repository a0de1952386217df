"""A small HTTP/1.1 and UDP server: one thread, one ``selectors`` loop.

A thread per client is what ``http.server`` spends; a hundred pods on two cores cannot. A
connection is a buffer and a deadline: a client may send
byte by byte, stop half-way or send rubbish, and holds up nobody. An answer that takes
time (agnhost's ``/dial`` and ``/shell``) is marked :class:`Later` and gets a thread.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from labnet.image.programs.http import (
    BadRequest,
    Later,
    Request,
    Response,
    encode,
    keeps_alive,
    parse,
)

IDLE_SECONDS = 75.0  # nginx's keepalive_timeout

Answer = Callable[[Request], "Response | Later"]


def say(text: str) -> None:
    """Write one line to standard output, past Python's buffers (a fork shares them)."""
    with suppress(OSError):  # nobody keeps this container's log; serving goes on
        os.write(1, text.encode() + b"\n")


@dataclass(slots=True)
class Connection:
    """One client: what it sent and is still to be read, what is still to be written."""

    sock: socket.socket
    client: tuple[str, int]
    deadline: float
    received: bytes = b""
    pending: bytes = b""
    closing: bool = False
    then: Callable[[], None] | None = None


@dataclass(slots=True)
class HttpService:
    """What answers on one TCP port."""

    answer: Answer
    server: str
    log: Callable[[Request, Response], None] | None = None


@dataclass(slots=True)
class Loop:
    """Listeners and their connections, served until SIGTERM."""

    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    connections: dict[int, Connection] = field(default_factory=dict)

    def serve_http(self, port: int, service: HttpService) -> socket.socket:
        """Answer HTTP on ``port`` of every IPv4 address."""
        listener = socket.create_server(("0.0.0.0", port), backlog=512)
        listener.setblocking(False)
        self._on_readable(listener, lambda: self._accept(listener, service))
        return listener

    def serve_tcp(self, port: int, answer: Callable[[tuple[str, int]], bytes]) -> socket.socket:
        """Greet whoever connects with ``answer`` and close."""
        listener = socket.create_server(("0.0.0.0", port), backlog=512)
        listener.setblocking(False)

        def greet() -> None:
            try:
                sock, client = listener.accept()
            except OSError:
                return
            with sock, suppress(OSError):  # it may have gone away again
                sock.setblocking(False)
                sock.send(answer(client))

        self._on_readable(listener, greet)
        return listener

    def serve_udp(
        self, port: int, answer: Callable[[bytes, tuple[str, int]], bytes | None]
    ) -> socket.socket:
        """Answer each datagram on ``port`` with one, or with none."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("0.0.0.0", port))
        sock.setblocking(False)

        def reply() -> None:
            try:
                data, client = sock.recvfrom(65535)
                if (text := answer(data, client)) is not None:
                    sock.sendto(text, client)
            except OSError:
                pass  # an ICMP error of an earlier reply, or a full buffer

        self._on_readable(sock, reply)
        return sock

    def run(self) -> None:
        """Serve for ever; SIGTERM and SIGINT end the process with code 0."""
        signal.signal(signal.SIGTERM, _leave)
        signal.signal(signal.SIGINT, _leave)
        while True:
            self.step(IDLE_SECONDS if self.connections else None)

    def step(self, timeout: float | None) -> None:
        """Serve what is ready, or wait ``timeout`` seconds for something to be."""
        for key, _ in self.selector.select(timeout):
            key.data()
        self._drop_idle(time.monotonic())

    def _on_readable(self, sock: socket.socket, act: Callable[[], None]) -> None:
        self.selector.register(sock, selectors.EVENT_READ, act)

    def _drop_idle(self, now: float) -> None:
        for connection in [c for c in self.connections.values() if c.deadline < now]:
            self._close(connection)

    def _accept(self, listener: socket.socket, service: HttpService) -> None:
        try:
            sock, client = listener.accept()
        except OSError:
            return  # reset before we got to it, or out of descriptors
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(sock, client, time.monotonic() + IDLE_SECONDS)
        self.connections[sock.fileno()] = connection
        self._on_readable(sock, lambda: self._progress(connection, service))

    def _close(self, connection: Connection) -> None:
        self._forget(connection)
        connection.sock.close()

    def _forget(self, connection: Connection) -> None:
        self.selector.unregister(connection.sock)
        del self.connections[connection.sock.fileno()]

    def _progress(self, connection: Connection, service: HttpService) -> None:
        try:
            if connection.pending:
                self._flush(connection)
            elif not self._receive(connection):
                self._close(connection)
                return
            while not connection.pending and self._answer_one(connection, service):
                pass
        except OSError:
            if connection.sock.fileno() in self.connections:
                self._close(connection)

    def _receive(self, connection: Connection) -> bool:
        try:
            data = connection.sock.recv(65536)
        except BlockingIOError:
            return True
        connection.received += data
        connection.deadline = time.monotonic() + IDLE_SECONDS
        return bool(data)

    def _answer_one(self, connection: Connection, service: HttpService) -> bool:
        """Answer one complete request; False when there is none (left)."""
        if connection.sock.fileno() not in self.connections:
            return False
        try:
            parsed = parse(connection.received, connection.client, connection.sock.getsockname())
        except BadRequest as error:
            self._send(connection, service, Response(f"{error}\n", error.status), alive=False)
            return False
        if parsed is None:
            return False
        request, length = parsed
        connection.received = connection.received[length:]
        response = service.answer(request)
        if isinstance(response, Later):
            self._in_thread(connection, service, request, response)
            return False
        if service.log:
            service.log(request, response)
        alive = keeps_alive(request)
        self._send(connection, service, response, alive=alive, head=request.method == "HEAD")
        return True

    def _send(
        self,
        connection: Connection,
        service: HttpService,
        response: Response,
        *,
        alive: bool,
        head: bool = False,
    ) -> None:
        connection.pending = encode(response, service.server, alive=alive, head=head)
        connection.closing = not alive
        connection.then = response.then
        self._flush(connection)

    def _flush(self, connection: Connection) -> None:
        try:
            sent = connection.sock.send(connection.pending)
        except BlockingIOError:
            sent = 0
        connection.pending = connection.pending[sent:]
        key = self.selector.get_key(connection.sock)
        wanted = selectors.EVENT_WRITE if connection.pending else selectors.EVENT_READ
        if key.events != wanted:
            self.selector.modify(connection.sock, wanted, key.data)
        if connection.pending:
            return
        then, connection.then = connection.then, None
        if connection.closing:
            self._close(connection)
        if then:
            then()

    def _in_thread(
        self, connection: Connection, service: HttpService, request: Request, later: Later
    ) -> None:
        """Hand the connection to a thread that answers, blocking, and closes it."""
        from threading import Thread

        self._forget(connection)

        def work() -> None:
            with connection.sock as sock:
                response = later.work()
                if service.log:
                    service.log(request, response)
                sock.settimeout(IDLE_SECONDS)
                with suppress(OSError):  # it may have gone away while we worked
                    sock.sendall(encode(response, service.server, alive=False))

        Thread(target=work, daemon=True).start()


def _leave(_signal: int, _frame: object) -> None:
    sys.exit(0)
