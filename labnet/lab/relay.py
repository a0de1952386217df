"""`forward`: a listener on this machine, connections that come out inside the lab.

No route leads from the host into a lab, and none is needed: PID 1 opens the connection
in the right namespace and hands the connected socket over (SCM_RIGHTS). What remains is
copying bytes both ways between two sockets. Half-closes are passed on, since a client
may stop sending and still wait for the answer.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable

from labnet.errors import LabnetError

_BLOCK = 64 * 1024
_BACKLOG = 128

Dial = Callable[[], socket.socket]
Complain = Callable[[str], None]


def listen(port: int) -> socket.socket:
    """Return a listener on 127.0.0.1; ``port`` 0 takes any free one."""
    try:
        return socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
    except OSError as taken:
        raise LabnetError(
            f"127.0.0.1:{port} cannot be listened on: {os.strerror(taken.errno or 0)}",
            hint=f"`ss -ltnp sport = :{port}` shows who has it; :REMOTE takes any free port",
        ) from taken


def serve(listener: socket.socket, dial: Dial, complain: Complain) -> None:
    """Answer each connection on ``listener`` with one that ``dial`` makes; never return."""
    while True:
        here, _ = listener.accept()
        threading.Thread(target=_connect, args=(here, dial, complain), daemon=True).start()


def _connect(here: socket.socket, dial: Dial, complain: Complain) -> None:
    with here:
        try:
            there = dial()
        except LabnetError as refused:
            complain(str(refused))
            return
        with there:
            join(here, there)


def join(one: socket.socket, other: socket.socket) -> None:
    """Copy bytes both ways until both sides have stopped sending."""
    back = threading.Thread(target=_pump, args=(other, one), daemon=True)
    back.start()
    _pump(one, other)
    back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):  # reset by either side: the other learns it below
        while block := source.recv(_BLOCK):
            sink.sendall(block)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
