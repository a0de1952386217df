"""What a transaction does to a state, and what the kernel would refuse.

The rules of ``iptables-restore --noflush``, as far as this project writes them:
``:CHAIN`` makes a chain or empties it, ``-A`` appends, ``-I CHAIN n`` inserts before the
n-th rule, ``-D`` deletes by text or number, ``-X`` removes a chain that is empty and that
nothing jumps to. A jump to a chain that does not exist is refused, and with it the whole
transaction. The in-memory kernel of the tests and the real one's memory of what it wrote
both use this, so neither can drift from the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from labnet.naming import CHAIN_MAX
from labnet.plan.netfilter import (
    Chains,
    NetfilterState,
    Rules,
    Transaction,
    TransactionRefused,
    jump_target,
)

BUILT_IN = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "raw": ("PREROUTING", "OUTPUT"),
}
_VERDICTS = {"ACCEPT", "DROP", "RETURN", "QUEUE"}
_TARGETS = {
    "filter": _VERDICTS | {"REJECT", "MARK", "LOG", "CONNMARK"},
    "nat": _VERDICTS | {"DNAT", "SNAT", "MASQUERADE", "REDIRECT", "MARK", "LOG", "NETMAP"},
    "mangle": _VERDICTS | {"MARK", "CONNMARK", "TPROXY", "TCPMSS", "LOG"},
    "raw": _VERDICTS | {"NOTRACK", "CT", "TRACE", "LOG"},
}


class _Refusal(Exception):
    """Why the kernel would refuse a line; its text is what iptables would print."""


def applied(state: NetfilterState, transactions: Sequence[Transaction]) -> NetfilterState:
    """Return ``state`` after all ``transactions``. Raises ``TransactionRefused``."""
    tables = dict(state.tables)
    for transaction in transactions:
        tables[transaction.table] = after(tables.get(transaction.table), transaction)
    return NetfilterState(tables)


def after(chains: Chains | None, transaction: Transaction) -> Chains:
    """Return a table's chains after ``transaction``.

    None is a table that was never used: it comes into being with its built-in chains.
    Raises ``TransactionRefused``.
    """
    table = _Table(transaction.table, chains)
    for line in transaction.lines:
        try:
            table.carry_out(line)
        except _Refusal as refusal:
            raise TransactionRefused(
                f"iptables-restore: {transaction.table}: {line}: {refusal}",
                refused=transaction,
                line=line,
            ) from None
    return table.chains()


class _Table:
    """A table while a transaction changes it; only what changes is copied."""

    def __init__(self, name: str, chains: Chains | None) -> None:
        self._name = name
        start = dict.fromkeys(BUILT_IN[name], ()) if chains is None else chains
        self._chains: dict[str, Rules] = dict(start)
        self._edited: dict[str, list[str]] = {}

    def chains(self) -> Chains:
        """Return the chains as they are now."""
        return {**self._chains, **{c: tuple(rules) for c, rules in self._edited.items()}}

    def carry_out(self, line: str) -> None:
        """Do one line, or raise ``_Refusal``."""
        verb, chain, argument = (*line.split(" ", 2), "", "")[:3]
        if verb.startswith(":"):
            self._make(verb[1:])
        elif verb == "-N":
            if chain in self._chains:
                raise _Refusal("Chain already exists")
            self._make(chain)
        elif chain not in self._chains and not self._has_built_in(verb, chain):
            raise _Refusal(f"Chain '{chain}' does not exist")
        elif verb == "-X":
            self._remove(chain)
        elif verb == "-F":
            self._edited[chain] = []
        else:
            self._edit(self._rules(chain), verb, argument)

    def _has_built_in(self, verb: str, chain: str) -> bool:
        """Bring in a built-in chain that was never used, as iptables does on first use."""
        if chain not in BUILT_IN[self._name] or verb not in ("-A", "-I"):
            return False
        self._make(chain)
        return True

    def _rules(self, chain: str) -> list[str]:
        return self._edited.setdefault(chain, list(self._chains[chain]))

    def _make(self, chain: str) -> None:
        if len(chain) > CHAIN_MAX:
            raise _Refusal(
                f"chain name '{chain}' is too long (must be under {CHAIN_MAX + 1} chars)"
            )
        self._chains[chain] = ()
        self._edited[chain] = []

    def _remove(self, chain: str) -> None:
        if chain in BUILT_IN[self._name]:
            raise _Refusal("Operation not supported")
        if self._rules(chain) or self._is_called(chain):
            raise _Refusal("CHAIN_USER_DEL failed (Device or resource busy)")
        del self._chains[chain], self._edited[chain]

    def _is_called(self, chain: str) -> bool:
        return any(
            chain in rule and jump_target(rule) == chain
            for rules in self.chains().values()
            for rule in rules
        )

    def _edit(self, rules: list[str], verb: str, argument: str) -> None:
        if verb == "-A":
            self._check(argument)
            rules.append(argument)
        elif verb == "-I":
            number, rule = _numbered(argument)
            if number > len(rules) + 1:
                raise _Refusal("Index of insertion too big")
            self._check(rule)
            rules.insert(number - 1, rule)
        elif verb == "-D":
            _delete(rules, argument)
        else:
            raise _Refusal(f"unknown option {verb}")

    def _check(self, rule: str) -> None:
        target = jump_target(rule)
        if target and target not in self._chains and target not in _TARGETS[self._name]:
            raise _Refusal(f"RULE_APPEND failed (No such file or directory): no target {target}")


def _numbered(argument: str) -> tuple[int, str]:
    first, _, rest = argument.partition(" ")
    return (int(first), rest) if first.isdigit() else (1, argument)


def _delete(rules: list[str], argument: str) -> None:
    if argument.isdigit():
        if not 1 <= int(argument) <= len(rules):
            raise _Refusal("Index of deletion too big")
        del rules[int(argument) - 1]
    elif argument in rules:
        rules.remove(argument)
    else:
        raise _Refusal("Bad rule (does a matching rule exist in that chain?)")
