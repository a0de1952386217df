"""TCP relayed: a port that accepts, and the pairs of connections behind it.

For each client that connects, an endpoint is chosen and connected to. One that refuses is
left for the next at once, one that says nothing after 250 ms, then 500 ms, 1 s, 2 s (the
times of Kubernetes' userspace proxy); after the fourth the client's connection is closed.

Then the two sockets are one connection to those at its ends. The end of one side's stream
(FIN) is passed on as such and the other direction goes on; a reset is passed on as a
reset; keep-alives find out about peers that vanished.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
from collections.abc import Callable
from ipaddress import IPv4Address

from labnet.kernel.relay_loop import EDGE, FAILED, Loop, Timer
from labnet.kernel.relay_pipes import Direction, Pipes
from labnet.plan.relay import Address, Chooser

DIAL_TIMEOUTS = (0.25, 0.5, 1.0, 2.0)  # seconds, one per attempt
_AT_ONCE = 64  # connections accepted before others get a turn
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 0.1  # seconds without accepting when there are no descriptors left
_KEEPALIVE = 15  # seconds
_RESET = struct.pack("ii", 1, 0)  # struct linger: on, 0 s: close() sends RST
_READABLE = select.EPOLLIN | select.EPOLLRDHUP


class TcpPort:
    """A listening port; its connections outlive it."""

    def __init__(
        self,
        listener: socket.socket,
        chooser: Chooser,
        loop: Loop,
        pipes: Pipes,
        relayed: set[TcpRelay],
    ) -> None:
        self._listener = listener
        self._chooser = chooser
        self._loop = loop
        self._pipes = pipes
        self._relayed = relayed  # of all ports

    def start(self) -> None:
        """Accept from now on."""
        self._loop.watch(self._listener.fileno(), select.EPOLLIN, self._accept)

    def close(self) -> None:
        """Accept no more."""
        if self._listener.fileno() >= 0:
            self._loop.forget(self._listener.fileno())
            self._listener.close()

    def _accept(self, _: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                client, (address, _port) = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS:
                    self._rest()
                raise
            client.setblocking(False)
            relay = TcpRelay(client, IPv4Address(address), self._chooser, self._loop, self._pipes)
            self._relayed.add(relay)
            relay.start(self._relayed.discard)

    def _rest(self) -> None:
        """Look away for a moment: epoll would report the waiting client without end."""
        self._loop.forget(self._listener.fileno())
        self._loop.after(_PAUSE, self._resume)

    def _resume(self) -> None:
        if self._listener.fileno() >= 0:
            self.start()


class TcpRelay:
    """One client's connection and the one behind it."""

    def __init__(
        self,
        client: socket.socket,
        address: IPv4Address,
        chooser: Chooser,
        loop: Loop,
        pipes: Pipes,
    ) -> None:
        self._client = client
        self._address = address
        self._chooser = chooser
        self._loop = loop
        self._pipes = pipes
        self._server: socket.socket | None = None
        self._attempts = 0
        self._timer: Timer | None = None
        self._ways: tuple[Direction, ...] = ()
        self._over: Callable[[TcpRelay], None] = lambda _: None

    def start(self, over: Callable[[TcpRelay], None]) -> None:
        """Find a server; ``over`` is called at the end of the connection."""
        self._over = over
        self._dial(None)

    def close(self) -> None:
        """End both connections as they are: what a socket still holds is sent."""
        self._let_go()
        for end in (self._client, self._server):
            if end:
                end.close()
        self._over(self)

    def reset(self) -> None:
        """Break both connections."""
        for end in (self._client, self._server):
            if end:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close()

    def _let_go(self) -> None:
        if self._timer:
            self._timer.cancel()
        for way in self._ways:
            way.close()
        for end in (self._client, self._server):
            if end:
                self._loop.forget(end.fileno())

    def _dial(self, failed: Address | None) -> None:
        """Connect to the next server, unless there is none or it was tried enough."""
        server = self._chooser.choose(self._address, failed)
        if server is None or self._attempts == len(DIAL_TIMEOUTS):
            self.close()
            return
        try:
            self._server = end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            self.reset()
            raise
        end.setblocking(False)
        end.connect_ex((str(server[0]), server[1]))  # what it says is asked for again later
        self._loop.watch(
            end.fileno(),
            select.EPOLLOUT | select.EPOLLET,
            lambda _: self._connected(server),
        )
        self._timer = self._loop.after(DIAL_TIMEOUTS[self._attempts], lambda: self._redial(server))
        self._attempts += 1

    def _redial(self, failed: Address) -> None:
        assert self._server
        self._loop.forget(self._server.fileno())
        self._server.close()
        self._server = None
        self._dial(failed)

    def _connected(self, server: Address) -> None:
        assert self._server
        assert self._timer
        self._timer.cancel()
        if self._server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._redial(server)
            return
        self._loop.forget(self._server.fileno())
        there = Direction(self._client, self._server, self._pipes)
        back = Direction(self._server, self._client, self._pipes)
        self._ways = (there, back)
        for end, reads, writes in ((self._client, there, back), (self._server, back, there)):
            _tune(end)
            self._loop.watch(end.fileno(), EDGE, self._ready(end, reads, writes))

    def _ready(
        self, end: socket.socket, reads: Direction, writes: Direction
    ) -> Callable[[int], None]:
        """Return what is done when something happens to ``end``."""

        def ready(events: int) -> None:
            if events & (_READABLE | FAILED):
                self._pump(reads)  # before a reset there may be data that still counts
            if events & FAILED and not reads.waits and _is_broken(end):
                self.reset()
            elif events & select.EPOLLOUT and writes.waits:
                self._pump(writes)

        return ready

    def _pump(self, way: Direction) -> None:
        if self._client.fileno() < 0:
            return  # it ended while it waited for its next turn
        try:
            more = way.pump()
        except OSError:
            self._last_words(way)
            self.reset()
            return
        if more:
            self._loop.again(lambda: self._pump(way))
        elif all(w.ended for w in self._ways):
            self.close()

    def _last_words(self, broken: Direction) -> None:
        """Pass on what the end that takes no more has said before it was gone."""
        for way in self._ways:
            if way is not broken:
                with contextlib.suppress(OSError):
                    way.pump()


def _is_broken(end: socket.socket) -> bool:
    if end.fileno() < 0:
        return False  # ended already
    return end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


def _tune(end: socket.socket) -> None:
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE)
