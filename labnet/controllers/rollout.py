"""How a Deployment moves its pods from the old template to the new: sizes of ReplicaSets.

Everything is arithmetic on ReplicaSets' asked-for and available numbers. A rolling
update may have ``maxSurge`` pods too many and ``maxUnavailable`` too few at any moment:
the new set grows as far as the surge allows, the old ones shrink as far as enough pods
stay available, unhealthy ones first. Recreate empties the old sets before it fills the
new one. (Kubernetes: ``pkg/controller/deployment/rolling.go``, ``sync.go``.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Any

from labnet.api.meta import Object


@dataclass(frozen=True, slots=True)
class Set:
    """A ReplicaSet as far as a rollout looks at it; ``created`` orders old before new."""

    name: str
    wanted: int
    available: int
    created: str
    desired_before: int | None = None  # the Deployment's replicas when it was last sized


@dataclass(frozen=True, slots=True)
class Strategy:
    """What a Deployment asks for: how many pods, and how to get there."""

    replicas: int
    recreate: bool
    max_surge: int
    max_unavailable: int

    @property
    def most(self) -> int:
        """Pods there may be at any moment."""
        return self.replicas + self.max_surge if self.replicas else 0

    @property
    def fewest(self) -> int:
        """Pods that must be available at any moment."""
        return self.replicas - self.max_unavailable


def strategy_of(deployment: Object) -> Strategy:
    """Return the strategy of a Deployment, percentages worked out."""
    spec = deployment["spec"]
    replicas = spec.get("replicas", 1)
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return Strategy(replicas, True, 0, replicas)
    rolling = strategy.get("rollingUpdate") or {}
    surge = _share(rolling.get("maxSurge", "25%"), replicas, ceil)
    unavailable = min(_share(rolling.get("maxUnavailable", "25%"), replicas, floor), replicas)
    if surge == 0 and unavailable == 0:
        unavailable = 1  # both rounded to nothing: a rollout must be able to move
    return Strategy(replicas, False, surge, unavailable)


def _share(value: Any, of: int, rounded: Any) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return int(rounded(of * int(value[:-1]) / 100))
    return int(value)


def sizes(
    strategy: Strategy, new: Set | None, old: Sequence[Set], *, paused: bool = False
) -> Mapping[str, int]:
    """Return the sizes to set now, by name; one step: what happened decides the next.

    After a change of ``replicas`` every set that has pods is named, changed or not: each
    remembers what it was sized for. ``new`` is None while it does not exist, or while a
    Recreate still waits for old pods to end.
    """
    if is_scaling(strategy, (*old, *([new] if new else []))):
        return _scaled(strategy, new, old)
    if paused:
        return {}
    if strategy.recreate:
        emptied = _changed(old, {s.name: 0 for s in old})
        return emptied or (_changed([new], _grown(strategy, new, old)) if new else {})
    if new is None:
        return {}
    return _changed([new], _grown(strategy, new, old)) or _changed(old, _shrunk(strategy, new, old))


def first_size(strategy: Strategy, old: Sequence[Set]) -> int:
    """Return the size of a new set that is about to be created."""
    room = strategy.most - sum(s.wanted for s in old)
    return max(0, min(strategy.replicas, room))


def _changed(sets: Sequence[Set], wanted: Mapping[str, int]) -> Mapping[str, int]:
    return {s.name: wanted[s.name] for s in sets if wanted.get(s.name, s.wanted) != s.wanted}


def is_scaling(strategy: Strategy, sets: Sequence[Set]) -> bool:
    """Whether ``replicas`` itself was changed since the sets were sized."""
    return any(s.wanted and s.desired_before not in (None, strategy.replicas) for s in sets)


def _scaled(strategy: Strategy, new: Set | None, old: Sequence[Set]) -> Mapping[str, int]:
    """Size for another number of replicas: the only set, or all in proportion."""
    active = [s for s in (*old, *([new] if new else [])) if s.wanted]
    if len(active) == 1 or strategy.recreate:
        return {s.name: s.wanted for s in active[:-1]} | {active[-1].name: strategy.replicas}
    if new and new.wanted == strategy.replicas == new.available:
        return {s.name: 0 for s in old} | {new.name: new.wanted}
    return _in_proportion(strategy, active)


def _in_proportion(strategy: Strategy, active: Sequence[Set]) -> Mapping[str, int]:
    """Share what is to be added or taken by the sets' sizes; the rest goes to the largest."""
    total = sum(s.wanted for s in active)
    left = strategy.most - total
    ranked = sorted(active, key=lambda s: (-s.wanted, s.created), reverse=left < 0)
    result: dict[str, int] = {}
    for each in ranked:
        share = round(each.wanted * strategy.most / total) - each.wanted
        share = max(min(share, left), 0) if left > 0 else min(max(share, left), 0)
        result[each.name] = each.wanted + share
        left -= share
    largest = max(active, key=lambda s: s.wanted).name
    result[largest] = max(0, result[largest] + left)
    return result


def _grown(strategy: Strategy, new: Set, old: Sequence[Set]) -> Mapping[str, int]:
    if new.wanted >= strategy.replicas:
        return {new.name: strategy.replicas}
    room = strategy.most - sum(s.wanted for s in old) - new.wanted
    return {new.name: new.wanted + max(0, min(room, strategy.replicas - new.wanted))}


def _shrunk(strategy: Strategy, new: Set, old: Sequence[Set]) -> Mapping[str, int]:
    """Take from the old sets what may go, pods that are not available before others."""
    total = new.wanted + sum(s.wanted for s in old)
    spare = total - strategy.fewest - max(0, new.wanted - new.available)
    if spare <= 0:
        return {}
    oldest_first = sorted(old, key=lambda s: s.created)
    cleaned = _take(oldest_first, spare, lambda s: max(0, s.wanted - s.available))
    available = new.available + sum(min(s.available, s.wanted) for s in cleaned)
    after = _take(cleaned, available - strategy.fewest, lambda s: s.wanted)
    return {s.name: s.wanted for s in after}


def _take(sets: Sequence[Set], spare: int, takeable: Any) -> list[Set]:
    result = []
    for each in sets:
        taken = max(0, min(spare, takeable(each)))
        spare -= taken
        result.append(replace(each, wanted=each.wanted - taken))
    return result
