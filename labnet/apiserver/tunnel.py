"""Bytes in both directions between a client and a kubelet, as they come.

After an exec's handshake the API server understands nothing of what passes: it is the
kubelet that speaks WebSocket. Both ends are TLS, whose library must not be entered from
two threads at once, so one thread serves both directions, with a bounded buffer each: an
end that does not read makes the other end wait, not this process grow.
"""

from __future__ import annotations

import selectors
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from socket import SHUT_RDWR, socket

BUFFER = 256 * 1024  # bytes on the way in one direction
_RECEIVE = 64 * 1024
_WAIT = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


@dataclass(slots=True, eq=False)
class _End:
    """One of the two sockets, and what still has to be sent to it."""

    sock: socket
    buffer: bytearray = field(default_factory=bytearray)
    open: bool = True  # it may still send something

    def send(self) -> bool:
        """Send what it takes; return whether it took anything."""
        before = len(self.buffer)
        while self.buffer:
            try:
                sent = self.sock.send(self.buffer)
            except _WAIT:
                break
            del self.buffer[:sent]
        return len(self.buffer) < before

    def receive(self, into: _End) -> bool:
        """Read as far as ``into`` has room; return whether anything came."""
        before = len(into.buffer)
        while self.open and len(into.buffer) < BUFFER:
            try:
                data = self.sock.recv(_RECEIVE)
            except _WAIT:
                break
            self.open = bool(data)
            into.buffer += data
        return len(into.buffer) > before


class Tunnel:
    """Carries bytes until either end closes; then sends the rest and closes both."""

    def __init__(self, client: socket, kubelet: socket, to_client: bytes = b"") -> None:
        self._client = _End(client, bytearray(to_client))
        self._kubelet = _End(kubelet)

    def start(self) -> None:
        """Carry, in a thread of its own."""
        threading.Thread(target=self.run, name="tunnel", daemon=True).start()

    def run(self) -> None:
        """Carry, in this thread."""
        client, kubelet = self._client, self._kubelet
        with selectors.DefaultSelector() as selector, suppress(OSError):
            for end in (client, kubelet):
                end.sock.setblocking(False)
            while self._carry():
                _wait_on(selector, client, _interest(client, kubelet))
                _wait_on(selector, kubelet, _interest(kubelet, client))
                selector.select()
        for end in (client, kubelet):
            with suppress(OSError):
                end.sock.shutdown(SHUT_RDWR)
            end.sock.close()

    def _carry(self) -> bool:
        """Move all that can be moved now; return whether there is more to come.

        Until nothing moves: TLS may hold bytes that make no socket readable.
        """
        client, kubelet = self._client, self._kubelet
        moved = True
        while moved:
            received = (client.receive(into=kubelet), kubelet.receive(into=client))
            moved = any((*received, client.send(), kubelet.send()))
        if client.open and kubelet.open:
            return True
        return bool(client.buffer and client.open) or bool(kubelet.buffer and kubelet.open)


def _interest(end: _End, other: _End) -> int:
    """Return the events of ``end`` that would let something move."""
    if not end.open:
        return 0
    read = selectors.EVENT_READ if other.open and len(other.buffer) < BUFFER else 0
    return read | (selectors.EVENT_WRITE if end.buffer else 0)


def _wait_on(selector: selectors.BaseSelector, end: _End, events: int) -> None:
    registered = selector.get_map().get(end.sock)
    if registered is None:
        if events:
            selector.register(end.sock, events)
    elif not events:
        selector.unregister(end.sock)
    elif registered.events != events:
        selector.modify(end.sock, events)
