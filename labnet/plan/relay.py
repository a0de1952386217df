"""Relaying in user space: a process that stands between a client and a server.

A NAT rule changes a packet's addresses and the kernel forwards it. A *relay* instead ends
the client's connection in a process, opens a second connection to a server, and carries
the bytes between the two. So the server talks to the relay's host and never learns the
client's address; in exchange the relay knows whether a server answered, and can try
another one before the client notices anything.

What a relay does is told with the two protocols here. :class:`Relays` opens and closes
ports; whoever opens one hands it a :class:`Chooser`, which is asked for a server once per
connection (TCP) or per client (UDP), and again when the server did not answer.
"""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Literal, Protocol

Address = tuple[IPv4Address, int]
Transport = Literal["TCP", "UDP"]


class Chooser(Protocol):
    """Says who serves a client. Called from the relay's thread."""

    def choose(self, client: IPv4Address, failed: Address | None = None) -> Address | None:
        """Return the server for ``client``, None if there is none.

        ``failed`` is the one that was chosen before and did not answer.
        """

    def serves(self, server: Address) -> bool:
        """Return whether ``server`` may still be given new requests."""


class Relays(Protocol):
    """The relay's ports in one network namespace."""

    def open(self, transport: Transport, chooser: Chooser) -> int:
        """Listen on every address of the host; return the port, which the kernel picks.

        Raises ``OpFailed`` when the kernel gives none.
        """

    def shut(self, transport: Transport, port: int) -> None:
        """Listen there no longer; TCP connections that exist go on until they end."""

    def close(self) -> None:
        """Shut every port and break every connection."""
