"""Bring the kernel's rules to what is wanted, past whatever it refuses.

One pass: observe, find the difference, apply. Where a transaction is too large for the
socket the next attempt uses smaller ones; where a rule is refused the attempt is repeated
without it and the refusal reported. Every attempt observes anew, so transactions that
took effect before the refused one are not repeated.
"""

from __future__ import annotations

from labnet.errors import OpFailed
from labnet.node.kube_proxy.mode import Programmed
from labnet.plan.netfilter import (
    NetfilterKernel,
    TransactionRefused,
    TransactionTooLarge,
    Wanted,
)
from labnet.plan.netfilter_diff import BUDGET, diff
from labnet.plan.netfilter_isolate import without

_ATTEMPTS = 50
_SMALLEST = 2_000  # bytes: a rule or two


def program(wanted: Wanted, kernel: NetfilterKernel, budget: int = BUDGET) -> Programmed:
    """Make the kernel's rules match ``wanted``, leaving out what it refuses.

    Raises ``OpFailed`` when even that does not succeed.
    """
    refused: list[TransactionRefused] = []
    for _ in range(_ATTEMPTS):
        plan = diff(wanted, kernel.observe_netfilter(), budget)
        try:
            if plan:
                kernel.apply_netfilter(plan)
        except TransactionTooLarge:
            if budget <= _SMALLEST:
                raise
            budget //= 2
        except TransactionRefused as refusal:
            if refusal.line is None and len(refusal.refused.lines) > 1 and budget > 1:
                budget = budget // 4  # aim better: fewer rules to blame
                continue
            refused.append(refusal)
            wanted = without(wanted, refusal.refused, refusal.line)
        else:
            return Programmed(plan, tuple(refused))
    raise OpFailed(f"netfilter: not in step after {_ATTEMPTS} attempts; last: {refused[-1]}")
