"""A relay without sockets: it hands out port numbers and can be asked who would be called."""

from __future__ import annotations

import itertools
from ipaddress import IPv4Address

from labnet.errors import OpFailed
from labnet.plan.relay import Address, Chooser, Transport


class FakeRelays:
    """Stands in for :class:`labnet.kernel.relay.LinuxRelays`; ``exhausted`` refuses ports."""

    def __init__(self) -> None:
        self.ports: dict[tuple[Transport, int], Chooser] = {}
        self.exhausted = False
        self._numbers = itertools.count(40000)

    def open(self, transport: Transport, chooser: Chooser) -> int:
        """Return the next number. Raises ``OpFailed`` where there is none."""
        if self.exhausted:
            raise OpFailed(f"relay {transport}: Address already in use")
        number = next(self._numbers)
        self.ports[transport, number] = chooser
        return number

    def shut(self, transport: Transport, port: int) -> None:
        """Forget a port."""
        self.ports.pop((transport, port), None)

    def close(self) -> None:
        """Forget all ports."""
        self.ports.clear()

    def connect(
        self, port: int, client: str = "192.0.2.1", *, transport: Transport = "TCP"
    ) -> Address | None:
        """Return whom a client of ``port`` would be relayed to, None where it is closed."""
        return self.ports[transport, port].choose(IPv4Address(client))
