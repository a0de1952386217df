"""The node's side of the wire: what a backend must know of ``eth0``."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface


@dataclass(frozen=True, slots=True)
class Outside:
    """The interface that reaches other nodes."""

    dev: str
    address: IPv4Interface
    mtu: int

    def reaches(self, host: IPv4Address) -> bool:
        """Return whether ``host`` is on the same wire, with no router between."""
        return host in self.address.network
