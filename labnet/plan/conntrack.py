"""What the connection tracker remembers of one flow.

netfilter decides about a flow at its first packet and remembers the decision: an entry
holds the flow as it came and the reply that is expected. Where the destination was
translated the reply comes from somebody else than the one that was asked. For TCP a
connection ends and the entry with it; a UDP client that keeps sending keeps its entry
alive, and with it a translation to an endpoint that may be long gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Protocol

UDP = 17

Endpoint = tuple[IPv4Address, int]


@dataclass(frozen=True, slots=True)
class Connection:
    """One entry, as ``conntrack -L`` shows it.

    ``source`` and ``destination`` are the flow's own, ``replier`` is who answers.
    """

    protocol: int
    source: Endpoint
    destination: Endpoint
    replier: Endpoint

    def __str__(self) -> str:
        """Return it as the arguments of the ``conntrack`` command."""
        (source, sport), (destination, dport) = self.source, self.destination
        name = {UDP: "udp", 6: "tcp", 132: "sctp"}.get(self.protocol, str(self.protocol))
        return f"-p {name} -s {source} -d {destination} --sport {sport} --dport {dport}"


class ConntrackKernel(Protocol):
    """The connection tracker of one network namespace."""

    def connections(self, protocol: int) -> tuple[Connection, ...]:
        """Return the entries of an IP protocol number."""

    def forget(self, connections: Iterable[Connection]) -> None:
        """Delete entries; one that is gone already is no error."""
