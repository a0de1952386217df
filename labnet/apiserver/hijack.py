"""A response that takes the connection with it.

Watches, followed logs and exec outlive the request that opened them. Their response is
no body but a function that is given the client's socket; the worker forgets the
connection as soon as the function returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flask import Response

from labnet.apiserver.tls import ClientSocket

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

Take = Callable[[ClientSocket], None]


class Taken(StopIteration):
    """Ends the worker's part in a request; gunicorn takes it for a closed connection."""


class Hijack(Response):
    """Gives the socket away instead of writing a response to it."""

    def __init__(self, take: Take) -> None:
        super().__init__()
        self._take = take

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Hand over the socket, then stop gunicorn from going on with it."""
        sock: ClientSocket = environ["gunicorn.socket"]
        sock.taken = True
        self._take(sock)
        raise Taken
