"""What a node's netfilter holds, and the values with which it is told to change.

netfilter's rules live in *tables* (nat, filter, …) of *chains*; a chain is an ordered
list of rules, and a packet walks them from the top until one of them decides. The
built-in chains (PREROUTING, FORWARD, …) hang on the kernel's hooks, all others are
reached by a jump. A rule is kept here as the text that ``iptables-save`` prints after
``-A CHAIN``, in exactly that spelling: what a planner wants and what the kernel reports
can then be compared as they stand.

Changes are :class:`Transaction` values: the lines between ``*table`` and ``COMMIT`` of an
``iptables-restore`` file. The kernel takes all of a transaction or nothing of it. Who
wants rules (kube-proxy) describes them as :class:`Wanted`; :mod:`labnet.plan.netfilter_diff`
finds the transactions; a :class:`NetfilterKernel` carries them out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from labnet.errors import OpFailed

Rules = tuple[str, ...]
Chains = Mapping[str, Rules]

_JUMP = re.compile(r"(?:^| )-[jg] (\S+)")


@dataclass(frozen=True, slots=True)
class NetfilterState:
    """Tables → chains → rules, in order; a chain without rules is an empty tuple."""

    tables: Mapping[str, Chains] = field(default_factory=dict)

    def chains(self, table: str) -> Chains:
        """Return the chains of ``table``, none if there is no such table."""
        return self.tables.get(table, {})


@dataclass(frozen=True, slots=True)
class Hook:
    """A rule of ours in a chain that belongs to somebody else, e.g. nat's PREROUTING.

    It is put first in the chain, or with ``last`` behind what is there: a rule that
    accepts for good (flannel's in FORWARD) must not stand before those that still refuse
    (kube-proxy's). Where a hook is present already it stays where it is.
    """

    table: str
    chain: str
    rule: str
    last: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one owner wants: its chains whole, and its hooks in the chains of others.

    ``owned`` are chain names, or prefixes ending in ``-``; a chain so named that is not
    in ``state`` is stale. ``shared`` chains are edited rule by rule, because they hold
    many services and are too long for one transaction; every other chain is rewritten
    whole and at once when it changes. Lines in ``skipped`` (with their table) were
    refused and are not tried.
    """

    state: NetfilterState
    hooks: tuple[Hook, ...] = ()
    owned: tuple[str, ...] = ()
    shared: frozenset[str] = frozenset()
    skipped: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Transaction:
    """Lines that the kernel takes all together or not at all, and why."""

    table: str
    lines: tuple[str, ...]
    reason: str

    def text(self) -> str:
        """Return it as one block of an ``iptables-restore --noflush`` file."""
        return "\n".join((f"*{self.table}", *self.lines, "COMMIT", ""))


class TransactionRefused(OpFailed):
    """The kernel refused one transaction; those before it took effect.

    ``line`` is the line it named, or None when it named none.
    """

    def __init__(self, message: str, *, refused: Transaction, line: str | None) -> None:
        super().__init__(message)
        self.refused = refused
        self.line = line


class TransactionTooLarge(OpFailed):
    """One transaction exceeds what the netlink socket may send: plan smaller ones."""

    retryable = True


class NetfilterKernel(Protocol):
    """The netfilter of one network namespace."""

    def observe_netfilter(self) -> NetfilterState:
        """Return every table there is, foreign rules included."""

    def apply_netfilter(self, transactions: Sequence[Transaction]) -> None:
        """Carry them out in order.

        Raises ``TransactionRefused`` or ``TransactionTooLarge`` at the first that fails.
        """


def jump_target(rule: str) -> str:
    """Return the chain or target that ``rule`` jumps or goes to, "" if to none."""
    found = _JUMP.search(rule)
    return found.group(1) if found else ""


def parse_save(text: str) -> NetfilterState:
    """Return the state that an ``iptables-save`` output describes."""
    tables: dict[str, dict[str, list[str]]] = {}
    chains: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("-A "):
            _, chain, rule = (*line.split(" ", 2), "")[:3]
            chains[chain].append(rule)
        elif line.startswith(":"):
            chains[line[1:].split(" ", 1)[0]] = []
        elif line.startswith("*"):
            chains = tables.setdefault(line[1:], {})
    return frozen(tables)


def frozen(tables: Mapping[str, Mapping[str, Iterable[str]]]) -> NetfilterState:
    """Return ``tables`` as a state that nobody changes any more."""
    return NetfilterState(
        {
            table: {name: tuple(rules) for name, rules in chains.items()}
            for table, chains in tables.items()
        }
    )


def render_save(state: NetfilterState) -> str:
    """Return ``state`` as ``iptables-save`` would print it, without counters' values."""
    out: list[str] = []
    for table in sorted(state.tables):
        chains = state.tables[table]
        out.append(f"*{table}")
        out.extend(f":{name} - [0:0]" for name in sorted(chains))
        out.extend(f"-A {name} {rule}" for name in sorted(chains) for rule in chains[name])
        out.append("COMMIT")
    return "\n".join(out) + "\n"
