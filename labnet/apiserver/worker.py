"""The HTTP server: gunicorn's threaded worker, run in this process as a library.

One thread accepts, shakes hands (never waiting for a single client) and keeps idle
connections; a request goes to a pool thread as soon as its bytes are there. gunicorn
reads HTTP/1.1 and calls Flask. Three things differ from its own worker:

- listening sockets are handed in, any number of them, and there is no arbiter process:
  the lab's PID 1 restarts the API server as it does every component;
- TLS handshakes happen in the poller, step by step, so that a client that connects and
  says nothing costs no thread;
- a response may take the socket with it (:class:`~labnet.apiserver.hijack.Hijack`): the
  worker then forgets the connection without closing it.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.http import get_parser
from gunicorn.workers.gthread import TConn, ThreadWorker

from labnet.apiserver.auth import from_certificate
from labnet.apiserver.tls import ClientSocket

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

THREADS = 16
_HANDSHAKE = 10.0  # seconds a client has to finish its handshake and send its first byte


class _Log(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's messages in our log; requests are logged by the application."""

    def setup(self, cfg: Config) -> None:
        self.cfg = cfg
        self._access_log_enabled = False
        self.error_log = logging.getLogger("kube-apiserver.http")


class _Connection(TConn):  # type: ignore[misc]
    """A client's connection, TLS already established when the first request is read."""

    def init(self) -> None:
        """Make the parser, the first time."""
        if not self.initialized:
            self.initialized: bool = True
            self.parser = get_parser(self.cfg, self.sock, self.client)

    def close(self, graceful: bool = False) -> None:
        """Close at once: waiting for the client's own close would hold up everybody."""
        if not self.sock.taken:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
            self.sock.close()


class Worker(ThreadWorker):  # type: ignore[misc]
    """Serves a WSGI application on TLS sockets that listen already."""

    def __init__(
        self,
        app: WSGIApplication,
        sockets: Sequence[socket.socket],
        context: ssl.SSLContext,
        threads: int = THREADS,
    ) -> None:
        cfg = Config()
        for name, value in (
            ("threads", threads),
            ("worker_connections", 4000),
            ("keepalive", 90),
            ("graceful_timeout", 0),
            ("limit_request_line", 8190),
        ):
            cfg.set(name, value)
        super().__init__(0, os.getppid(), list(sockets), _App(app), 0, cfg, _Log(cfg))
        self._context = context
        self._connections: WeakSet[_Connection] = WeakSet()

    def init_signals(self) -> None:
        """Signals are the component's."""

    def notify(self) -> None:
        """There is no arbiter to be told."""

    def serve(self) -> None:
        """Serve until ``stop``."""
        try:
            self.init_process()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Finish what is under way; close what gunicorn leaves to the end of its process."""
        self.tpool.shutdown(wait=True)
        for conn in tuple(self._connections):
            conn.close()
        for fd in self.PIPE:
            os.close(fd)
        self.tmp.close()

    def stop(self) -> None:
        """Make ``serve`` return soon; safe from a signal's context and other threads."""
        self.handle_exit(None, None)

    def accept(self, listener: socket.socket) -> None:
        """Take a new connection and begin its handshake."""
        try:
            raw, client = listener.accept()
        except OSError:
            return  # the client was quicker to leave
        try:
            raw.setblocking(False)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock = self._context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
        except OSError:
            raw.close()
            return
        conn = _Connection(self.cfg, sock, client, listener.getsockname())
        conn.timeout = time.monotonic() + _HANDSHAKE
        self.nr_conns += 1
        self._connections.add(conn)
        self.pending_conns.append(conn)
        self.poller.register(sock, selectors.EVENT_READ, partial(self._shake_hands, conn))

    def _shake_hands(self, conn: _Connection, sock: ClientSocket) -> None:
        """Go on with the handshake; afterwards wait for the request."""
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            pass  # called again when there is more to read
        except ssl.SSLWantWriteError:
            self.poller.modify(sock, selectors.EVENT_WRITE, partial(self._shake_hands, conn))
        except OSError as error:
            self.log.debug("handshake with %s failed: %s", conn.client, error)
            self._forget(conn)
        else:
            sock.identity = from_certificate(sock.getpeercert())
            wait = partial(self.on_pending_socket_readable, conn)
            self.poller.modify(sock, selectors.EVENT_READ, wait)

    def _forget(self, conn: _Connection) -> None:
        self.poller.unregister(conn.sock)
        self.pending_conns.remove(conn)
        self.nr_conns -= 1
        conn.close()


class _App:
    """What gunicorn calls an application: something that returns the callable."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def wsgi(self) -> Any:
        return self._app
