"""A kubelet server on loopback with real TLS, and what the API server is to it."""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import quote

from labnet.errors import NotFound
from labnet.lab.pki import Request, write_pki
from labnet.node.kubelet.server import CLIENT_NAME, Server, Serving
from labnet.node.kubelet.websocket import BINARY, CLOSING, PONG
from labnet.node.runtime.fake import FakeExecution, FakeRuntime
from labnet.sandbox.spec import ExecSpec, Exit
from tests.unit.kubelet_rig import Node

LOOPBACK = IPv4Address("127.0.0.1")


class LocalExecution:
    """A process of this machine in the place of one in a container."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._pidfd = os.pidfd_open(process.pid)

    def fileno(self) -> int:
        return self._pidfd

    def wait(self, timeout: float | None) -> Exit | None:
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        return Exit(code if code >= 0 else 128 - code, max(0, -code), "")

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        os.close(self._pidfd)
        self._process.kill()
        self._process.wait()


class LocalRuntime(FakeRuntime):
    """Runs what is exec'ed for real, on this machine."""

    def exec(  # type: ignore[override]
        self, spec: ExecSpec, stdio: tuple[int, int, int]
    ) -> LocalExecution | FakeExecution:
        self.calls.append(("exec", " ".join(spec.argv)))
        try:
            process = subprocess.Popen(
                spec.argv,
                stdin=stdio[0],
                stdout=stdio[1],
                stderr=stdio[2],
                start_new_session=True,
                preexec_fn=_controlling_terminal if spec.tty else None,
            )
        except FileNotFoundError as error:
            raise NotFound(f'exec: "{spec.argv[0]}": executable file not found in $PATH') from error
        return LocalExecution(process)


def _controlling_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class ServedNode(Node):
    """A node whose kubelet serves."""

    def __init__(self, state: Path) -> None:
        self.pki = state / "pki"
        self.pki.mkdir(parents=True)
        write_pki(
            self.pki,
            (
                Request("kubelet", "system:node:node1", addresses=(LOOPBACK,)),
                Request("api", CLIENT_NAME),
                Request("other", "system:node:node2"),
            ),
        )
        super().__init__(state)

    def restart_kubelet(self) -> None:
        if not isinstance(self.runtime, LocalRuntime):
            self.runtime = LocalRuntime(self.clock)
        super().restart_kubelet()

    @contextmanager
    def served(self) -> Iterator[int]:
        """Serve on a port of loopback."""
        serving = Serving(
            str(LOOPBACK),
            0,
            str(self.pki / "kubelet.crt"),
            str(self.pki / "kubelet.key"),
            str(self.pki / "ca.crt"),
        )
        setting = self.kubelet.setting
        server = Server(serving, self.kubelet.pods, setting.pump, self.clock, setting.log_root)
        port = server.start()
        try:
            yield port
        finally:
            server.close()

    def connect(self, port: int, certificate: str = "api") -> ssl.SSLSocket:
        """Connect with one of the certificates, or with none ("")."""
        context = ssl.create_default_context(cafile=str(self.pki / "ca.crt"))
        if certificate:
            context.load_cert_chain(
                self.pki / f"{certificate}.crt", self.pki / f"{certificate}.key"
            )
        plain = socket.create_connection(("127.0.0.1", port), 10)
        return context.wrap_socket(plain, server_hostname="127.0.0.1")

    def get(self, port: int, path: str, certificate: str = "api") -> tuple[int, str]:
        """Return status and body of one GET."""
        with self.connect(port, certificate) as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            answer = b"".join(iter(lambda: received(sock), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        if b"chunked" in head:
            body = unchunked(body)
        return int(head.split()[1]), body.decode()


def received(sock: ssl.SSLSocket) -> bytes:
    try:
        return sock.recv(65536)
    except (ssl.SSLEOFError, ConnectionResetError):
        return b""


def unchunked(body: bytes) -> bytes:
    """Return the content of a chunked body."""
    out = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        out, body = out + body[:length], body[length + 2 :]
    return out


@dataclass
class Exec:
    """The API server's side of one exec."""

    sock: ssl.SSLSocket
    rest: bytes = b""
    channels: dict[int, bytes] = field(default_factory=dict)
    pongs: list[bytes] = field(default_factory=list)
    closed: bool = False

    def send(self, channel: int, data: bytes) -> None:
        """Send ``data`` on a channel."""
        self.frame(BINARY, bytes((channel,)) + data)

    def frame(self, opcode: int, payload: bytes) -> None:
        """Send one masked frame."""
        self.sock.sendall(_client_frame(opcode, payload))

    def send_all(self, messages: Iterable[tuple[int, bytes]]) -> None:
        """Send messages on channels and take what comes meanwhile, in this one thread.

        A TLS connection must not be entered from two threads at once.
        """
        frames = (_client_frame(BINARY, bytes((channel,)) + data) for channel, data in messages)
        rest = memoryview(b"".join(frames))
        patience = self.sock.gettimeout()
        self.sock.setblocking(False)
        try:
            while rest and not self.closed:
                with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    rest = rest[self.sock.send(rest[:65536]) :]
                with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    self.read()
                select.select([self.sock], [self.sock], [], patience)
        finally:
            self.sock.settimeout(patience)

    def run(self) -> dict[str, Any]:
        """Read to the end; return the Status."""
        while not self.closed:
            self.read()
        status: dict[str, Any] = json.loads(self.channels[3])
        return status

    def read(self) -> None:
        """Take what comes next."""
        data = received(self.sock)
        self.closed |= not data
        self.rest += data
        while (parsed := _server_frame(self.rest)) is not None:
            opcode, payload, length = parsed
            self.rest = self.rest[length:]
            if opcode == BINARY:
                channel = payload[0]
                self.channels[channel] = self.channels.get(channel, b"") + payload[1:]
            elif opcode == PONG:
                self.pongs.append(payload)
            elif opcode == CLOSING:
                self.closed = True


def _client_frame(opcode: int, payload: bytes) -> bytes:
    """Return a frame, masked as a client's must be."""
    mask, length = secrets.token_bytes(4), len(payload)
    if length < 126:
        size = bytes((0x80 | length,))
    elif length < 65536:
        size = struct.pack("!BH", 0xFE, length)
    else:
        size = struct.pack("!BQ", 0xFF, length)
    key = (mask * (length // 4 + 1))[:length]
    number = int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")
    return bytes((0x80 | opcode,)) + size + mask + number.to_bytes(length, "big")


def _server_frame(data: bytes) -> tuple[int, bytes, int] | None:
    if len(data) < 2:
        return None
    length, start = data[1], 2
    if length == 126:
        length, start = int.from_bytes(data[2:4], "big"), 4
    elif length == 127:
        length, start = int.from_bytes(data[2:10], "big"), 10
    if len(data) < start + length:
        return None
    return data[0] & 0x0F, data[start : start + length], start + length


def upgrade(
    sock: ssl.SSLSocket,
    path: str,
    command: Sequence[str],
    flags: Mapping[str, int],
    protocol: str = "v5.channel.k8s.io",
) -> bytes:
    """Ask for an exec; return what came behind the answer."""
    query = "&".join(
        [f"command={quote(word)}" for word in command] + [f"{k}={v}" for k, v in flags.items()]
    )
    lines = (
        f"GET {path}?{query} HTTP/1.1",
        "Host: x",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Sec-WebSocket-Protocol: {protocol}",
    )
    sock.sendall("\r\n".join((*lines, "", "")).encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        more = sock.recv(4096)
        assert more, answer
        answer += more
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), head
    assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
    return rest


@contextmanager
def executing(
    node: ServedNode, port: int, *command: str, protocol: str = "v5.channel.k8s.io", **flags: int
) -> Iterator[Exec]:
    """Open an exec in the pod ``default/web``."""
    with node.connect(port) as sock:
        yield Exec(sock, upgrade(sock, "/exec/default/web/web", command, flags, protocol))
