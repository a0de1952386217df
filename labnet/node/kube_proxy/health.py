"""Who may send traffic here? Health over HTTP, for load balancers outside the cluster.

``:10256/healthz`` says whether kube-proxy keeps up with the API. A Service with
``externalTrafficPolicy: Local`` has a port of its own on every node
(``healthCheckNodePort``): 200 where the node has a ready endpoint, 503 where it has none or
only some that are about to end, so that a load balancer stops sending before they are gone.

One thread answers all ports; the answers are made by whoever owns them.
"""

from __future__ import annotations

import json
import logging
import selectors
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

log = logging.getLogger("kube-proxy")

HEALTHZ_PORT = 10256
_READ_LIMIT = 4096
_PATIENCE = 0.5  # seconds a client may take to ask

Answer = tuple[bool, Mapping[str, Any]]  # healthy, and the document that says so


class HealthServer:
    """Answers every GET on some ports; ``answer(port)`` says what. Close it at the end."""

    def __init__(self, answer: Callable[[int], Answer]) -> None:
        self._answer = answer
        self._selector = selectors.DefaultSelector()
        self._listening: dict[int, socket.socket] = {}
        self._failed: set[int] = set()
        self._lock = threading.Lock()
        self._waker, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def start(self) -> None:
        """Start answering."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering and let go of all ports."""
        self._waker.send(b"x")
        if self._thread.is_alive():
            self._thread.join(2 * _PATIENCE)
        self.listen(())
        for end in (self._waker, self._woken):
            end.close()
        self._selector.close()

    def listen(self, ports: Iterable[int]) -> None:
        """Listen on exactly ``ports``; one that somebody else has is logged and skipped."""
        wanted = set(ports)
        with self._lock:
            for port in self._listening.keys() - wanted:
                self._selector.unregister(self._listening[port])
                self._listening.pop(port).close()
            for port in wanted - self._listening.keys():
                self._open(port)
            self._failed &= wanted

    def _open(self, port: int) -> None:
        try:
            server = socket.create_server(("", port))
        except OSError as error:
            if port not in self._failed:
                log.warning("health port %d: %s", port, error.strerror)
            self._failed.add(port)
            return
        server.setblocking(False)
        self._listening[port] = server
        self._selector.register(server, selectors.EVENT_READ, port)

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    return
                self._serve(key.data)

    def _serve(self, port: int) -> None:
        try:
            with self._lock:
                connection, _ = self._listening[port].accept()
            with connection:
                connection.settimeout(_PATIENCE)
                if connection.recv(_READ_LIMIT):
                    connection.sendall(_response(*self._answer(port)))
        except (OSError, KeyError):
            return  # the client went, or the port was closed meanwhile


def _response(healthy: bool, document: Mapping[str, Any]) -> bytes:
    status = HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE
    body = json.dumps(document).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"X-Content-Type-Options: nosniff\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
