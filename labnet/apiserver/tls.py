"""TLS: the server's certificate, and sockets that remember who is at the other end.

A client may show a certificate of the cluster's CA and need not (it may have a token
instead). Who it is, is read once per connection.
"""

from __future__ import annotations

import ssl

from labnet.apiserver.auth import Identity

REQUEST_TIMEOUT = 30.0  # seconds a worker thread waits for a client that stopped sending


class ClientSocket(ssl.SSLSocket):
    """A connection from a client. ``taken``: it left the worker, which lets go of it."""

    identity: Identity | None = None
    taken: bool = False

    def setblocking(self, flag: bool) -> None:
        """Block at most ``REQUEST_TIMEOUT`` seconds at a time."""
        self.settimeout(REQUEST_TIMEOUT if flag else 0.0)


def server_context(cert: str, key: str, client_ca: str) -> ssl.SSLContext:
    """Return the context of the server side; arguments are paths of PEM files."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
    context.load_cert_chain(cert, key)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.num_tickets = 0  # nobody resumes a session; two records less per handshake
    context.sslsocket_class = ClientSocket
    return context
