"""Connections made from inside: how the host's command line reaches a Service.

PID 1 visits the network namespace for as long as it takes to make a socket; a socket
stays in the namespace it was made in. Connecting goes on in the background, and the
connected socket is handed out through the control socket.
"""

from __future__ import annotations

import errno
import os
import socket
from functools import partial

from labnet.errors import LabnetError, Unavailable
from labnet.lab.init.loop import Loop
from labnet.lab.init.server import Request
from labnet.linux.namespaces import NEWNET, returning, setns


class Dial:
    """One connection attempt, from a request to its reply."""

    def __init__(self, loop: Loop, request: Request, limit: float) -> None:
        self._loop = loop
        self._request = request
        self._limit = limit
        self._what = f"{request.message['address']}:{request.message['port']}"

    def begin(self, pidfd: int) -> None:
        """Start connecting in the netns of ``pidfd``."""
        with returning(NEWNET):
            setns(pidfd, NEWNET)
            channel = socket.socket(
                type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
            )
        self._channel = channel
        address = (str(self._request.message["address"]), int(self._request.message["port"]))
        try:
            failure = channel.connect_ex(address)
        except (OSError, OverflowError) as error:  # not an address, not a port
            channel.close()
            raise LabnetError(f"{self._what}: {error}") from error
        if failure != errno.EINPROGRESS:
            self._finish(failure)
            return
        self._timer = self._loop.later(self._limit, partial(self._settle, errno.ETIMEDOUT))
        self._loop.on_writable(channel.fileno(), self._connected)

    def _connected(self) -> None:
        self._loop.cancel(self._timer)
        self._settle(self._channel.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def _settle(self, failure: int) -> None:
        self._loop.forget(self._channel.fileno())
        self._finish(failure)

    def _finish(self, failure: int) -> None:
        with self._channel:
            if failure:
                self._request.fail(Unavailable(f"{self._what}: {os.strerror(failure)}"))
                return
            self._channel.setblocking(True)
            self._request.reply({}, [self._channel.fileno()])
