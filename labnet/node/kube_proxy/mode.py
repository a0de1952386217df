"""What a proxy mode is to the rest of kube-proxy.

A *mode* is one mechanism by which packets to a virtual IP reach an endpoint: rules in
iptables or nftables, or a process that copies bytes. kube-proxy around it is the same for
all: it watches the API, chooses endpoints, holds node ports, answers health checks. It
hands its mode every service on every pass; a mode changes only what differs, so a second
pass right after does nothing.

Modes do not know each other. When a node's mode was changed, kube-proxy lets the new one
write first and then every other one :meth:`~Mode.remove` what it left, so that a packet
meets the old way or the new one and never none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Protocol

from labnet.errors import LabnetError
from labnet.proxy.model import Portal

Services = Mapping[str, tuple[Portal, ...]]
"""``namespace/name`` → portals, sorted; a tuple that is the same object did not change."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A node's kube-proxy, whatever its mode."""

    node: str
    address: IPv4Address
    pod_cidr: IPv4Network  # the cluster's: traffic from outside it is masqueraded
    service_cidr: IPv4Network | None = None


class Batch(Protocol):
    """Lines the kernel took all together."""

    @property
    def lines(self) -> Sequence[str]:
        """Return them."""


@dataclass(frozen=True, slots=True)
class Programmed:
    """What one pass wrote, and what the kernel would not have."""

    written: Sequence[Batch] = ()
    refused: tuple[LabnetError, ...] = ()


class Mode(Protocol):
    """One way to program services on a node."""

    @property
    def name(self) -> str:
        """Return the mode's name, as in ``spec.proxy.mode``."""

    @property
    def translates(self) -> bool:
        """Whether the kernel translates to endpoints and remembers it per flow.

        Then a UDP flow to an endpoint that is gone must be forgotten.
        """

    def sync(self, services: Services) -> Programmed:
        """Make the node match. Raises ``OpFailed`` when that does not succeed."""

    def remove(self) -> Programmed:
        """Remove everything that a run of this mode left on the node, and only that."""

    def close(self) -> None:
        """Let go of what belongs to this process; what is in the kernel stays."""
