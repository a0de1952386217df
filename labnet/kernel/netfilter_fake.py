"""A netfilter in memory that refuses what iptables refuses.

It stands in for :class:`labnet.kernel.netfilter.LinuxNetfilter` where there is no
network namespace at hand; ``tests/contract/test_netfilter.py`` runs both through the
same promises. ``refuse`` plays a kernel that lacks a match or target: every line that
contains the text is turned down. ``capacity`` plays an ordinary user's socket buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

from labnet.plan.netfilter import (
    NetfilterState,
    Transaction,
    TransactionRefused,
    TransactionTooLarge,
)
from labnet.plan.netfilter_diff import weight
from labnet.plan.netfilter_effect import after


class FakeNetfilter:
    """Holds a state; records in ``log`` every transaction that took effect."""

    def __init__(self, state: NetfilterState | None = None, *, capacity: int = 212_992) -> None:
        self.state = state or NetfilterState()
        self.log: list[Transaction] = []
        self.refuse: set[str] = set()
        self.capacity = capacity

    def observe_netfilter(self) -> NetfilterState:
        """Return the state built up so far."""
        return self.state

    def apply_netfilter(self, transactions: Sequence[Transaction]) -> None:
        """Carry out ``transactions`` in memory."""
        for transaction in transactions:
            self._check(transaction)
            chains = after(self.state.tables.get(transaction.table), transaction)
            self.state = NetfilterState({**self.state.tables, transaction.table: chains})
            self.log.append(transaction)

    def _check(self, transaction: Transaction) -> None:
        if sum(map(weight, transaction.lines)) > self.capacity:
            raise TransactionTooLarge(f"{transaction.table}: Message too long")
        for line in transaction.lines:
            if any(text in line for text in self.refuse):
                raise TransactionRefused(
                    f"iptables-restore: {line}: No such file or directory",
                    refused=transaction,
                    line=line,
                )
