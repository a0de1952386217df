"""The node's side of the wire: what a backend must know of ``eth0``.

Its address is the source of every tunnelled packet and the next hop of every plain route
to this node, its MTU the largest packet that passes, and its network tells which other
nodes are on the same wire. flannel calls this the external interface.
"""

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
