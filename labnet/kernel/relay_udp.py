"""UDP relayed: every client gets a socket of its own towards its endpoint.

UDP has no connections, so a client is an address and port, and it is over when nothing
came or went for a while (250 ms, as in Kubernetes; ``kube-proxy --udp-timeout``). The
answer must carry the address the request was sent to, else the connection tracker does
not recognise it: a host with several addresses would pick one by its route. The kernel
tells that address with each datagram, and takes it with the answer (``IP_PKTINFO``).
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from dataclasses import dataclass
from ipaddress import IPv4Address

from labnet.kernel.relay_loop import Loop
from labnet.plan.relay import Address, Chooser

IDLE = 0.25  # seconds
_IP_PKTINFO = 8  # linux/in.h
_PKTINFO = struct.Struct("=i4s4s")  # interface, address to send from, address in the header
_LARGEST = 65_535
_AT_ONCE = 64

_Client = tuple[str, int]


@dataclass(slots=True)
class _Session:
    """A client, the socket towards its server, and where it sent its requests."""

    client: _Client
    server: Address
    end: socket.socket
    asked: bytes
    seen: float


class UdpPort:
    """A port that receives; closing it ends what goes on there."""

    def __init__(
        self, listener: socket.socket, chooser: Chooser, loop: Loop, idle: float = IDLE
    ) -> None:
        self._listener = listener
        self._chooser = chooser
        self._loop = loop
        self._idle = idle
        self._sessions: dict[_Client, _Session] = {}
        self._sweeps = False

    def start(self) -> None:
        """Receive from now on."""
        self._listener.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        self._loop.watch(self._listener.fileno(), select.EPOLLIN, self._receive)

    def close(self) -> None:
        """Receive no more, from clients or from servers."""
        if self._listener.fileno() >= 0:
            self._loop.forget(self._listener.fileno())
            self._listener.close()
        for session in list(self._sessions.values()):
            self._end(session)

    def _receive(self, _: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                data, extra, _flags, client = self._listener.recvmsg(_LARGEST, 64)
            except BlockingIOError:
                return
            session = self._session(client)
            if session:
                session.asked = _asked(extra)
                self._send(session, data)

    def _session(self, client: _Client) -> _Session | None:
        """Return the client's session, a new one where its server no longer serves."""
        session = self._sessions.get(client)
        if session and self._chooser.serves(session.server):
            return session
        if session:
            self._end(session)
        return self._open(client, None)

    def _open(self, client: _Client, failed: Address | None) -> _Session | None:
        server = self._chooser.choose(IPv4Address(client[0]), failed)
        if server is None:
            return None
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        end.setblocking(False)
        end.connect((str(server[0]), server[1]))
        session = _Session(client, server, end, b"", time.monotonic())
        self._sessions[client] = session
        self._sweep_later()
        self._loop.watch(end.fileno(), select.EPOLLIN, lambda _: self._answer(session))
        return session

    def _send(self, session: _Session, data: bytes) -> None:
        session.seen = time.monotonic()
        try:
            session.end.send(data)
        except BlockingIOError:
            return  # full: a datagram may be lost
        except OSError:
            self._elsewhere(session)

    def _answer(self, session: _Session) -> None:
        for _ in range(_AT_ONCE):
            try:
                data = session.end.recv(_LARGEST)
            except BlockingIOError:
                return
            except OSError:
                self._elsewhere(session)
                return
            session.seen = time.monotonic()
            info = _PKTINFO.pack(0, session.asked, bytes(4))
            with contextlib.suppress(OSError):  # the client's port may be closed by now
                self._listener.sendmsg(
                    [data], [(socket.IPPROTO_IP, _IP_PKTINFO, info)], 0, session.client
                )

    def _elsewhere(self, session: _Session) -> None:
        """The server refused: the client's next datagram goes to another one."""
        self._end(session)
        fresh = self._open(session.client, session.server)
        if fresh:
            fresh.asked = session.asked

    def _sweep_later(self) -> None:
        if self._sessions and not self._sweeps:
            self._sweeps = True
            self._loop.after(self._idle, self._sweep)

    def _sweep(self) -> None:
        """End idle sessions; come back as long as there are others."""
        self._sweeps = False
        oldest = time.monotonic() - self._idle
        for session in [s for s in self._sessions.values() if s.seen <= oldest]:
            self._end(session)
        self._sweep_later()

    def _end(self, session: _Session) -> None:
        self._sessions.pop(session.client, None)
        self._loop.forget(session.end.fileno())
        session.end.close()


def _asked(extra: list[tuple[int, int, bytes]]) -> bytes:
    """Return the destination address in a datagram's header."""
    for level, kind, data in extra:
        if (level, kind) == (socket.IPPROTO_IP, _IP_PKTINFO):
            found: bytes = _PKTINFO.unpack(data[: _PKTINFO.size])[2]
            return found
    return bytes(4)
