"""Logs and exec: bytes to and from a kubelet, and what is said when there is none."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from labnet.store.tls import Tls
from tests.api.server import TOKEN, RunningServer, pod

_PODS = "/api/v1/namespaces/default/pods"


class Kubelet:
    """A TLS server that records requests and answers with what the test says."""

    def __init__(self, tls: Tls, answer: bytes) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tls.ca)
        self._context.load_cert_chain(tls.cert, tls.key)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[str] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                raw, _ = self._listener.accept()
                with self._context.wrap_socket(raw, server_side=True) as sock:
                    self.requests.append(sock.recv(65536).decode())
                    sock.sendall(self._answer)
                    if b" 101 " in self._answer:
                        while data := sock.recv(65536):
                            sock.sendall(data.upper())

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@contextmanager
def _node(api: RunningServer, tls: Tls, answer: bytes) -> Iterator[Kubelet]:
    kubelet = Kubelet(tls, answer)
    _register(api, kubelet.port)
    try:
        yield kubelet
    finally:
        kubelet.close()


def _register(api: RunningServer, port: int) -> None:
    api.post("/api/v1/nodes", {"metadata": {"name": "node1"}})
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    merge = "application/merge-patch+json"
    patch = {"status": status}
    assert (
        api.request("PATCH", "/api/v1/nodes/node1/status", patch, Content_Type=merge).status == 200
    )
    api.post(_PODS, pod("web", "node1"))


_LOG = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nline 1\nline 2\n"


def test_a_log_comes_from_the_pods_kubelet(api: RunningServer, tls: Tls) -> None:
    with _node(api, tls, _LOG) as kubelet:
        answer = api.get(f"{_PODS}/web/log?follow=true&tailLines=2&container=c")
    assert answer.body == b"line 1\nline 2\n"
    line = kubelet.requests[0].splitlines()[0]
    assert line == "GET /containerLogs/default/web/c?follow=true&tailLines=2 HTTP/1.1"


def test_kubectl_logs_prints_it(api: RunningServer, tls: Tls) -> None:
    with _node(api, tls, _LOG):
        assert api.kubectl("logs", "web", "-f") == "line 1\nline 2\n"


def test_what_the_kubelet_refuses_reaches_the_client(api: RunningServer, tls: Tls) -> None:
    head = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
    why = b'container "c" in pod "web" is waiting to start: ContainerCreating'
    with _node(api, tls, head + why):
        answer = api.get(f"{_PODS}/web/log")
    assert (answer.status, answer.json["message"]) == (400, why.decode())


def test_an_exec_is_joined_to_the_kubelet_byte_for_byte(api: RunningServer, tls: Tls) -> None:
    upgraded = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nhello"
    with _node(api, tls, upgraded) as kubelet:
        context = ssl.create_default_context(cafile=tls.ca)
        raw = socket.create_connection(("127.0.0.1", api.port))
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as sock:
            query = "command=sh&command=-c&command=a%20b&stdin=true&stdout=true&tty=true"
            lines = (
                f"GET {_PODS}/web/exec?{query} HTTP/1.1",
                "Host: x",
                "Connection: Upgrade",
                "Upgrade: websocket",
                "Sec-WebSocket-Protocol: v5.channel.k8s.io",
                f"Authorization: Bearer {TOKEN}",
            )
            sock.sendall("\r\n".join((*lines, "", "")).encode())
            received = b""
            while not received.endswith(b"hello"):
                received += sock.recv(4096)
            sock.sendall(b"typed")
            assert sock.recv(4096) == b"TYPED"
    request = kubelet.requests[0]
    path = "/exec/default/web/c?command=sh&command=-c&command=a+b&input=1&output=1&tty=1"
    assert request.startswith(f"GET {path} HTTP/1.1\r\n")
    assert "v5.channel.k8s.io" in request
    assert TOKEN not in request


def test_a_kubelet_that_is_not_there_is_named(api: RunningServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    _register(api, port)
    answer = api.get(f"{_PODS}/web/log")
    assert answer.status == 500
    assert answer.json["message"] == (
        f"error dialing backend: dial tcp 127.0.0.1:{port}: connect: connection refused"
    )


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("web/log", "pod web does not have a host assigned"),
        ("web/log?container=d", "container d is not valid for pod web"),
        ("web/exec?command=ls", "Upgrade request required"),
    ],
)
def test_what_cannot_work_is_said_before_any_kubelet_is_asked(
    api: RunningServer, path: str, why: str
) -> None:
    api.post(_PODS, pod("web"))
    answer = api.get(f"{_PODS}/{path}")
    assert (answer.status, answer.json["message"]) == (400, why)
