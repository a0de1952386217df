"""From what is there to what is wanted, in transactions that never break traffic.

Between any two transactions a packet meets either the old or the new way of a service.
That follows from the order:

1. chains are written callees first, so that whatever a rule jumps to is complete:
   endpoints (KUBE-SEP), then services (KUBE-SVC, KUBE-EXT), then the rules that lead to
   them in the shared chains (KUBE-NODEPORTS, KUBE-SERVICES);
2. then the table's hooks in the built-in chains, if they are missing;
3. deletions last, when all tables are written: rules of shared chains, then chains,
   callers first.

A chain of one service is rewritten whole inside one transaction; a shared chain, with a
rule or more for every service, is edited with single inserts and deletes. Transactions
are kept small because the kernel gets each in one netlink message, and the socket of an
ordinary user holds 212,992 bytes (net.core.wmem_default); root's would hold more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from labnet.plan.netfilter import (
    Chains,
    Hook,
    NetfilterState,
    Transaction,
    Wanted,
    jump_target,
)
from labnet.plan.netfilter_edits import deletions, insertions
from labnet.plan.netfilter_effect import BUILT_IN

BUDGET = 120_000  # bytes of netlink message per transaction, as estimated by `weight`

_BUILT_IN = {chain for chains in BUILT_IN.values() for chain in chains}

Unit = tuple[str, ...]  # lines that must share a transaction


def diff(wanted: Wanted, observed: NetfilterState, budget: int = BUDGET) -> tuple[Transaction, ...]:
    """Return the transactions that make ``observed`` what is ``wanted``, in order.

    Only what ``wanted`` owns is touched. Equal states give none.
    """
    tables = sorted({*wanted.state.tables, *observed.tables}, key=_table_order)
    small = (
        transaction
        for step in _STEPS
        for table in tables
        for reason, find in step
        for transaction in _packed(
            table, find(table, wanted, observed), reason, wanted.skipped, budget
        )
    )
    return tuple(_joined(small, budget))


def owns(wanted: Wanted, chain: str) -> bool:
    """Return whether ``chain`` belongs to the owner of ``wanted``."""
    return chain in wanted.owned or chain.startswith(_prefixes(wanted.owned))


@cache
def _prefixes(owned: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in owned if name.endswith("-"))


def weight(line: str) -> int:
    """Return about how many bytes ``line`` takes in the netlink message, rather too many.

    An iptables match travels as its kernel structure: a comment always takes 256
    bytes, a ``recent`` list 228, whatever their text.
    """
    if not line.startswith(("-A", "-I")):
        return 200
    return (
        260
        + 100 * line.count(" -m ")
        + 200 * line.count(" --comment ")
        + 200 * line.count(" -m recent ")
    )


def _table_order(table: str) -> tuple[bool, str]:
    # nat first: a service that gets its first endpoint must be translated before
    # filter stops rejecting it.
    return (table != "nat", table)


def _writes(table: str, wanted: Wanted, observed: NetfilterState) -> Iterator[Unit]:
    there = observed.chains(table)
    want = wanted.state.chains(table)
    changed = {
        name: rules
        for name, rules in want.items()
        if (old := there.get(name)) is not rules and old != rules
    }
    for name in _callees_first(changed):
        if name in wanted.shared:
            yield from _single(insertions(name, there.get(name), changed[name]))
        else:
            yield (f":{name} - [0:0]", *(f"-A {name} {rule}" for rule in changed[name]))


def _single(lines: Iterable[str]) -> Iterator[Unit]:
    return ((line,) for line in lines)


def _missing_hooks(table: str, wanted: Wanted, observed: NetfilterState) -> Iterator[Unit]:
    """Insert each missing hook at the top, the last of the list first; or append it."""
    there = observed.chains(table)
    made = {*there, *BUILT_IN.get(table, ())}
    for hook in reversed([h for h in wanted.hooks if h.table == table]):
        if hook.chain not in made:  # somebody else's, who has not come yet
            made.add(hook.chain)
            yield (f":{hook.chain} - [0:0]",)
        if hook.rule not in there.get(hook.chain, ()):
            yield (f"{'-A' if hook.last else '-I'} {hook.chain} {hook.rule}",)


def _stale_hooks(table: str, wanted: Wanted, observed: NetfilterState) -> Iterator[Unit]:
    """Remove jumps into our chains that nobody wants any more, and second copies."""
    hooks = set(wanted.hooks)
    for chain, rules in observed.chains(table).items():
        if chain not in _BUILT_IN:  # its owner may jump to our chains
            continue
        seen: set[str] = set()
        for rule in rules:
            if owns(wanted, jump_target(rule)) and (
                rule in seen or Hook(table, chain, rule) not in hooks
            ):
                yield (f"-D {chain} {rule}",)
            seen.add(rule)


def _stale_rules(table: str, wanted: Wanted, observed: NetfilterState) -> Iterator[Unit]:
    want = wanted.state.chains(table)
    for chain, old in observed.chains(table).items():
        if chain in wanted.shared and chain in want and old != want[chain]:
            yield from _single(deletions(chain, old, want[chain]))


def _stale_chains(table: str, wanted: Wanted, observed: NetfilterState) -> Iterator[Unit]:
    """Empty and remove chains that are not wanted, callers before what they call."""
    want = wanted.state.chains(table)
    stale = {
        name: rules
        for name, rules in observed.chains(table).items()
        if name not in want and owns(wanted, name)
    }
    for name in reversed(_callees_first(stale)):
        yield (f":{name} - [0:0]", f"-X {name}")


def _callees_first(chains: Chains) -> list[str]:
    """Return the names of ``chains``, each after all those among them it jumps to."""
    order: dict[str, None] = {}
    visiting: set[str] = set()

    def visit(name: str) -> None:
        if name in order or name in visiting:
            return
        visiting.add(name)
        for rule in chains[name]:
            target = jump_target(rule)
            if target in chains:
                visit(target)
        order[name] = None

    for name in chains:
        visit(name)
    return list(order)


def _packed(
    table: str,
    units: Iterable[Unit],
    reason: str,
    skipped: frozenset[tuple[str, str]],
    budget: int,
) -> Iterator[Transaction]:
    """Fill transactions with whole units, up to ``budget`` bytes each."""
    lines: list[str] = []
    used = 0
    for unit in units:
        if skipped and any((table, line) in skipped for line in unit):
            continue
        size = sum(map(weight, unit))
        if lines and used + size > budget:
            yield Transaction(table, tuple(lines), reason)
            lines, used = [], 0
        lines += unit
        used += size
    if lines:
        yield Transaction(table, tuple(lines), reason)


def _joined(transactions: Iterable[Transaction], budget: int) -> Iterator[Transaction]:
    """Join neighbours of one table where they fit together.

    Every commit waits for the kernel's readers to finish, some milliseconds, whatever
    its size: two small ones take twice as long as one.
    """
    last: Transaction | None = None
    used = 0
    for transaction in transactions:
        size = sum(map(weight, transaction.lines))
        if last and last.table == transaction.table and used + size <= budget:
            lines = (*last.lines, *transaction.lines)
            last = Transaction(last.table, lines, f"{last.reason}, {transaction.reason}")
            used += size
        else:
            if last:
                yield last
            last, used = transaction, size
    if last:
        yield last


# What happens in all tables before the next step begins.
_STEPS = (
    (("write chains", _writes), ("hook in", _missing_hooks)),
    (
        ("unhook", _stale_hooks),
        ("remove rules", _stale_rules),
        ("remove chains", _stale_chains),
    ),
)
