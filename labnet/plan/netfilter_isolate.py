"""One refused rule must not cost all the others.

A kernel without some match or target refuses the rule that uses it, and iptables-restore
with it the whole transaction. What is wanted is then reduced by as little as makes sense:
a rule of a shared chain goes alone; a rule in a chain of one service takes that service
along, since half a balancing chain would send traffic nowhere; a deletion that is refused
(somebody else jumps to the chain) is left for later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labnet.plan.netfilter import Hook, NetfilterState, Rules, Transaction, Wanted, jump_target


def without(wanted: Wanted, refused: Transaction, line: str | None) -> Wanted:
    """Return ``wanted`` without what needs the refused ``line`` of a transaction.

    None stands for a refusal without a line: the transaction's first rule is blamed, so
    the smaller the transaction the better the aim.
    """
    blamed = line or next((x for x in refused.lines if x.startswith("-A ")), refused.lines[0])
    verb, chain, rule = (*blamed.split(" ", 2), "", "")[:3]
    if verb == "-I" and rule.split(" ", 1)[0].isdigit():
        rule = rule.split(" ", 1)[1]
    if verb in ("-A", "-I"):
        return _without_rule(wanted, refused.table, chain, rule)
    return replace(wanted, skipped=wanted.skipped | {(refused.table, blamed)})


def _without_rule(wanted: Wanted, table: str, chain: str, rule: str) -> Wanted:
    hook = Hook(table, chain, rule)
    if hook in wanted.hooks:
        return replace(wanted, hooks=tuple(h for h in wanted.hooks if h != hook))
    chains = dict(wanted.state.chains(table))
    if chain in wanted.owned:  # of all services
        chains[chain] = tuple(r for r in chains.get(chain, ()) if r != rule)
    else:
        chains = _without_chain(wanted, chains, chain)
    return replace(wanted, state=NetfilterState({**wanted.state.tables, table: chains}))


def _without_chain(wanted: Wanted, chains: Mapping[str, Rules], refused: str) -> dict[str, Rules]:
    """Drop a service's chain, the service's chains that call it, and the rules to those."""
    gone = {refused}
    while True:
        callers = {
            name
            for name, rules in chains.items()
            if name not in wanted.owned and any(jump_target(r) in gone for r in rules)
        }
        if callers <= gone:
            break
        gone |= callers
    return {
        name: tuple(r for r in rules if jump_target(r) not in gone)
        if name in wanted.owned
        else rules
        for name, rules in chains.items()
        if name not in gone
    }
