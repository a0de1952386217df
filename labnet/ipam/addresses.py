"""Which pod address is free?

Pure arithmetic: no file, no lock, no clock. host-local (:mod:`labnet.cni.host_local`)
keeps what is taken on disk, asks here, and races for the file.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from labnet.errors import Exhausted, ScenarioError


@dataclass(frozen=True, slots=True)
class Range:
    """The addresses ``first`` … ``last`` of ``subnet``, without ``gateway``."""

    subnet: IPv4Network
    first: IPv4Address
    last: IPv4Address
    gateway: IPv4Address

    def __contains__(self, address: IPv4Address) -> bool:
        return self.first <= address <= self.last and address != self.gateway


def pod_range(subnet: IPv4Network, start: IPv4Address | None = None) -> Range:
    """Return the addresses of ``subnet`` that pods may have, from ``start`` on.

    The first address is the bridge's, the last one the broadcast address. Raises
    ``Exhausted`` where nothing is left, ``ScenarioError`` where ``start`` is outside.
    """
    gateway = subnet.network_address + 1
    last = subnet.broadcast_address - 1
    first = start or gateway + 1
    if start and start not in subnet:
        raise ScenarioError(
            f"rangeStart {start} is not in the node's subnet {subnet}",
            hint="correct the node's rangeStart or subnet in the scenario",
        )
    if first > last:
        raise Exhausted(f"{subnet} has no address for a pod", hint="use a shorter subnetLen")
    return Range(subnet, first, last, gateway)


def next_free(
    within: Range, *taken: Collection[IPv4Address], after: IPv4Address | None = None
) -> IPv4Address:
    """Return the first address after ``after`` that is in none of ``taken``, going round.

    Going on after the last one instead of filling the first gap keeps a freed address
    unused for as long as possible: caches elsewhere may still know its old owner.
    Raises ``Exhausted``.
    """
    size = int(within.last) - int(within.first) + 1
    offset = int(after) + 1 - int(within.first) if after and after in within else 0
    for step in range(size):
        candidate = within.first + (offset + step) % size
        if candidate in within and not any(candidate in held for held in taken):
            return candidate
    raise Exhausted(
        f"no free pod address between {within.first} and {within.last}:"
        f" {len(set().union(*taken))} taken or reserved",
        hint="scale down, add a node, or give the lab a shorter subnetLen",
    )
