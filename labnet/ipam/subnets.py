"""Which per-node subnet is free?

Pure arithmetic over networks: no store, no clock, no randomness. The subnet manager
(:mod:`labnet.subnet.manager`) reads the leases, asks here, and races for the key.
flannel draws at random among the first hundred free ones; labnet takes the lowest, so
that a lab looks the same every time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv4Network

from labnet.errors import Exhausted


def candidates(first: IPv4Address, last: IPv4Address, length: int) -> Iterator[IPv4Network]:
    """Yield the subnets of prefix length ``length`` from ``first`` to ``last``."""
    step = 1 << (32 - length)
    for number in range(int(first), int(last) + 1, step):
        yield IPv4Network((number, length))


def first_free(
    first: IPv4Address, last: IPv4Address, length: int, taken: Collection[IPv4Network]
) -> IPv4Network:
    """Return the lowest of the candidates that overlaps nothing in ``taken``.

    Raises ``Exhausted``.
    """
    for candidate in candidates(first, last, length):
        if not any(candidate.overlaps(used) for used in taken):
            return candidate
    raise Exhausted(
        f"no free /{length} left between {first} and {last}: {len(taken)} leased or reserved",
        hint="widen podCIDR or lengthen subnetLen in the scenario",
    )
