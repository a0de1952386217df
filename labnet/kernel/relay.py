"""The relay of this network namespace: ports that one thread serves, by splice and epoll.

The caller's thread makes and binds the socket, so that it knows the port (and whether there
is one) at once; everything after that happens in the relay's own thread.
"""

from __future__ import annotations

import contextlib
import resource
import socket
from typing import Protocol

from labnet.errors import OpFailed
from labnet.kernel.relay_loop import Loop
from labnet.kernel.relay_pipes import Pipes
from labnet.kernel.relay_tcp import TcpPort, TcpRelay
from labnet.kernel.relay_udp import IDLE, UdpPort
from labnet.plan.relay import Chooser, Transport

_BACKLOG = 1024
_KINDS: dict[Transport, socket.SocketKind] = {
    "TCP": socket.SOCK_STREAM,
    "UDP": socket.SOCK_DGRAM,
}


class _Port(Protocol):
    def start(self) -> None: ...
    def close(self) -> None: ...


class LinuxRelays:
    """Real ports (a ``labnet.plan.relay.Relays``). Nothing is started before the first."""

    def __init__(self, udp_idle: float = IDLE) -> None:
        self._udp_idle = udp_idle
        self._loop: Loop | None = None
        self._pipes = Pipes()
        self._ports: dict[tuple[Transport, int], _Port] = {}
        self._relayed: set[TcpRelay] = set()

    def __enter__(self) -> LinuxRelays:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, transport: Transport, chooser: Chooser) -> int:
        """Listen on a port that the kernel picks; return it. Raises ``OpFailed``."""
        loop = self._running()
        listener = _listener(transport)
        number: int = listener.getsockname()[1]
        port: _Port = (
            TcpPort(listener, chooser, loop, self._pipes, self._relayed)
            if transport == "TCP"
            else UdpPort(listener, chooser, loop, self._udp_idle)
        )
        self._ports[transport, number] = port
        loop.post(port.start)
        return number

    def shut(self, transport: Transport, port: int) -> None:
        """Close a port; its TCP connections go on."""
        gone = self._ports.pop((transport, port), None)
        if gone:
            self._running().post(gone.close)

    def close(self) -> None:
        """Close every port, break every connection, end the thread."""
        loop, self._loop = self._loop, None
        if loop:
            loop.post(self._break)
            loop.stop()

    def _break(self) -> None:
        for port in self._ports.values():
            port.close()
        self._ports.clear()
        for relay in list(self._relayed):
            relay.reset()
        self._pipes.close()

    def _running(self) -> Loop:
        if self._loop is None:
            _allow_many_descriptors()
            self._loop = Loop("relay")
            self._loop.start()
        return self._loop


def _listener(transport: Transport) -> socket.socket:
    try:
        listener = socket.socket(socket.AF_INET, _KINDS[transport])
    except OSError as error:
        raise OpFailed(f"relay {transport}: {error.strerror}") from error
    try:
        listener.setblocking(False)
        listener.bind(("", 0))
        if transport == "TCP":
            listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise OpFailed(f"relay {transport}: {error.strerror}") from error
    return listener


def _allow_many_descriptors() -> None:
    """Every connection takes two: ask for as many as this process may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
