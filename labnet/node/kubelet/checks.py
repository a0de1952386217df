"""Carrying out one probe or hook: an HTTP GET or a connection from the node's network.

The kubelet runs in its node's network namespace, so an ``httpGet`` to the pod's address
goes over cni0 like any other packet of the node, and fails when that path is broken.
Written over a plain socket: a probe needs a status line, not an HTTP library.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

from labnet.sandbox.pod import Action

ANSWER_MAX = 10 * 1024
USER_AGENT = "kube-probe/1.37"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether the check succeeded, and what it said, for the event."""

    ok: bool
    output: str = ""


def http_get(action: Action, address: str, timeout: float) -> Outcome:
    """GET the action's path; 200–399 is success."""
    host = action.host or address
    try:
        with socket.create_connection((host, action.port), timeout) as plain:
            sock = _tls(plain) if action.tls else plain
            sock.sendall(_request(action, host))
            answer = _read(sock)
    except OSError as error:
        scheme = "https" if action.tls else "http"
        url = f"{scheme}://{host}:{action.port}{action.path}"
        return Outcome(False, f'Get "{url}": {_reason(error, host, action.port)}')
    return _judge(answer)


def _tls(sock: socket.socket) -> socket.socket:
    import ssl  # a probe over HTTPS does not ask for a certificate, as in Kubernetes

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(sock)


def _request(action: Action, host: str) -> bytes:
    headers = {"Host": f"{host}:{action.port}", "User-Agent": USER_AGENT, "Accept": "*/*"}
    headers |= dict(action.headers) | {"Connection": "close"}
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    lines = [f"GET {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def _read(sock: socket.socket) -> bytes:
    answer = b""
    while len(answer) < ANSWER_MAX and (data := sock.recv(4096)):
        answer += data
    return answer


def _judge(answer: bytes) -> Outcome:
    status = answer.split(b"\r\n", 1)[0].split(b" ")
    if len(status) < 2 or not status[1].isdigit():
        return Outcome(False, "malformed HTTP response")
    code = int(status[1])
    if 200 <= code < 400:
        return Outcome(True)
    return Outcome(False, f"HTTP probe failed with statuscode: {code}")


def tcp_connect(action: Action, address: str, timeout: float) -> Outcome:
    """Open a connection and close it again."""
    host = action.host or address
    try:
        socket.create_connection((host, action.port), timeout).close()
    except OSError as error:
        return Outcome(False, _reason(error, host, action.port))
    return Outcome(True)


def _reason(error: OSError, host: str, port: int) -> str:
    if isinstance(error, TimeoutError):
        return f"dial tcp {host}:{port}: i/o timeout"
    text = (error.strerror or str(error)).lower()
    return f"dial tcp {host}:{port}: connect: {text}"
