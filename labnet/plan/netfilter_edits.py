"""Edits that turn one long chain into another, rule by rule.

A shared chain (KUBE-SERVICES) holds a rule or more for every service of the cluster; to
write it anew for each change would cost as much as the first time. So the rules that stay
are found, the missing ones inserted between them, and the stale ones deleted in a later
step, when nothing needs them any more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from labnet.plan.netfilter import Rules


def insertions(chain: str, old: Rules | None, new: Rules) -> Iterator[str]:
    """Bring every missing rule of ``new`` into ``chain``, each at its place.

    Positions count the stale rules that are still there: those go in a later step.
    """
    if old is None:
        yield f":{chain} - [0:0]"
    merged = _merge(old or (), new)
    tail = max((n for n, (kind, _) in enumerate(merged) if kind != "new"), default=-1)
    for n, (kind, rule) in enumerate(merged):
        if kind == "new":
            yield f"-A {chain} {rule}" if n > tail else f"-I {chain} {n + 1} {rule}"


def _merge(old: Rules, new: Rules) -> list[tuple[str, str]]:
    """Return ``old`` with the missing rules of ``new`` worked in, top to bottom.

    Each rule is ``kept``, ``stale`` (to be deleted later) or ``new``.
    """
    keep_old, keep_new = _kept(old, new)
    merged: list[tuple[str, str]] = []
    done_old = done_new = 0
    for at_old, at_new in zip([*keep_old, len(old)], [*keep_new, len(new)], strict=True):
        merged += [("new", rule) for rule in new[done_new:at_new]]
        merged += [("stale", rule) for rule in old[done_old:at_old]]
        merged += [("kept", rule) for rule in old[at_old : at_old + 1]]
        done_old, done_new = at_old + 1, at_new + 1
    return merged


def _kept(old: Rules, new: Rules) -> tuple[list[int], list[int]]:
    """Return positions in ``old`` and in ``new`` of the rules that stay where they are.

    The longest run of common rules in the same order, so that a chain whose order is
    disturbed heals with the fewest edits.
    """
    where: dict[str, int] = {}
    for position, rule in enumerate(old):
        where.setdefault(rule, position)
    pairs = [(where.pop(rule), i) for i, rule in enumerate(new) if rule in where]
    run = _longest_rising([position for position, _ in pairs])
    return [pairs[n][0] for n in run], [pairs[n][1] for n in run]


def _longest_rising(numbers: Sequence[int]) -> list[int]:
    """Return the indices of a longest rising subsequence (patience sorting)."""
    tails: list[int] = []  # smallest number that ends a run of each length
    ends: list[int] = []  # and its index
    before: list[int] = []  # index of the predecessor in its run, -1 for none
    for n, number in enumerate(numbers):
        length = bisect_left(tails, number)
        tails[length : length + 1] = [number]
        ends[length : length + 1] = [n]
        before.append(ends[length - 1] if length else -1)
    run: list[int] = []
    n = ends[-1] if ends else -1
    while n >= 0:
        run.append(n)
        n = before[n]
    return run[::-1]


def deletions(chain: str, old: Rules, new: Rules) -> Iterator[str]:
    """Delete what ``insertions`` left over, from the bottom up.

    By its text, which stays right when somebody else edits the chain meanwhile; by its
    number only where the same text is there twice.
    """
    merged = _merge(old, new)
    copies = Counter(rule for _, rule in merged)
    for n in range(len(merged), 0, -1):
        kind, rule = merged[n - 1]
        if kind == "stale":
            yield f"-D {chain} {n}" if copies[rule] > 1 else f"-D {chain} {rule}"
