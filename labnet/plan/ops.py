"""The vocabulary of change: one small class per thing the kernel can be told.

An operation is a value. It says what to do and why; :mod:`labnet.kernel` does it,
:mod:`labnet.plan.explain` shows it as the command a person would type. A plan is a
tuple of them, in an order the kernel accepts.
"""

from __future__ import annotations

from dataclasses import dataclass

from labnet.plan.state import Address, Cable, Forwarding, Link, Neighbour, Route, Sysctl


@dataclass(frozen=True, slots=True)
class AddLink:
    """Create ``link``."""

    link: Link
    reason: str


@dataclass(frozen=True, slots=True)
class SetLink:
    """Change MTU, MAC, bridge, hairpin or up/down of ``old`` to what ``link`` says."""

    old: Link
    link: Link
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteLink:
    """Remove the device ``name`` and everything that hangs on it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class AddAddress:
    """Give ``address`` to its device."""

    address: Address
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteAddress:
    """Take ``address`` from its device."""

    address: Address
    reason: str


@dataclass(frozen=True, slots=True)
class AddRoute:
    """Install ``route``."""

    route: Route
    reason: str


@dataclass(frozen=True, slots=True)
class ReplaceRoute:
    """Put ``route`` in the place of the one to the same network, without a gap."""

    old: Route
    route: Route
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteRoute:
    """Remove ``route``."""

    route: Route
    reason: str


@dataclass(frozen=True, slots=True)
class SetNeighbour:
    """Write a permanent ARP entry, over an old one for the same address."""

    neighbour: Neighbour
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteNeighbour:
    """Remove an ARP entry."""

    neighbour: Neighbour
    reason: str


@dataclass(frozen=True, slots=True)
class SetForwarding:
    """Write a forwarding entry, over an old one for the same MAC address."""

    forwarding: Forwarding
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteForwarding:
    """Remove a forwarding entry."""

    forwarding: Forwarding
    reason: str


@dataclass(frozen=True, slots=True)
class SetSysctl:
    """Write a kernel setting."""

    sysctl: Sysctl
    reason: str


@dataclass(frozen=True, slots=True)
class Attach:
    """Lay ``cable``; the namespace of its far end is handed to ``Kernel.attach``."""

    cable: Cable
    reason: str


Op = (
    AddLink
    | SetLink
    | DeleteLink
    | AddAddress
    | DeleteAddress
    | AddRoute
    | ReplaceRoute
    | DeleteRoute
    | SetNeighbour
    | DeleteNeighbour
    | SetForwarding
    | DeleteForwarding
    | SetSysctl
)
Plan = tuple[Op, ...]
