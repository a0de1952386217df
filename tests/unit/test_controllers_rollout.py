"""Sizes of ReplicaSets during a rollout: arithmetic, and what it never does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.controllers.rollout import Set, Strategy, first_size, sizes, strategy_of


def rolling(replicas: int, surge: int = 1, unavailable: int = 0) -> Strategy:
    return Strategy(replicas, False, surge, unavailable)


def a_set(name: str, wanted: int, available: int | None = None, before: int | None = None) -> Set:
    return Set(name, wanted, wanted if available is None else available, name, before)


@pytest.mark.parametrize(
    ("replicas", "rolling_update", "surge", "unavailable"),
    [
        (2, {}, 1, 0),
        (4, {}, 1, 1),
        (10, {"maxSurge": "30%", "maxUnavailable": "30%"}, 3, 3),
        (3, {"maxSurge": 2, "maxUnavailable": 0}, 2, 0),
        (1, {"maxSurge": 0, "maxUnavailable": "10%"}, 0, 1),
        (0, {}, 0, 0),
    ],
)
def test_percentages_round_surge_up_and_unavailable_down(
    replicas: int, rolling_update: dict[str, object], surge: int, unavailable: int
) -> None:
    spec = {"replicas": replicas, "strategy": {"rollingUpdate": rolling_update}}
    found = strategy_of({"spec": spec})
    if replicas:
        assert (found.max_surge, found.max_unavailable) == (surge, unavailable)
    assert found.most == replicas + surge


def test_the_first_set_gets_all_pods_at_once() -> None:
    assert first_size(rolling(5), []) == 5


def test_a_new_set_begins_with_the_surge() -> None:
    assert first_size(rolling(4, surge=2), [a_set("old", 4)]) == 2


def test_a_new_set_that_only_just_began_does_not_shrink_the_old_one() -> None:
    assert sizes(rolling(4), a_set("new", 1, available=0), [a_set("old", 4)]) == {}


def test_each_new_available_pod_lets_an_old_one_go() -> None:
    assert sizes(rolling(4), a_set("new", 1), [a_set("old", 4)]) == {"old": 3}
    assert sizes(rolling(4), a_set("new", 1), [a_set("old", 3)]) == {"new": 2}


def test_unavailable_old_pods_go_first() -> None:
    old = [a_set("a", 2), a_set("b", 2, available=0)]
    assert sizes(rolling(4, 1, 1), a_set("new", 1, available=0), old) == {"b": 1}


def test_recreate_empties_before_it_fills() -> None:
    recreate = Strategy(3, True, 0, 3)
    assert sizes(recreate, None, [a_set("old", 3)]) == {"old": 0}
    assert sizes(recreate, a_set("new", 0), [a_set("old", 0)]) == {"new": 3}


def test_scaling_the_only_set_is_direct() -> None:
    assert sizes(rolling(10), a_set("new", 2, before=2), []) == {"new": 10}
    assert sizes(rolling(0), a_set("new", 2, before=2), []) == {"new": 0}


def test_scaling_in_the_middle_of_a_rollout_keeps_the_proportion() -> None:
    new, old = a_set("new", 2, before=10), a_set("old", 8, before=10)
    changed = sizes(rolling(20, surge=0, unavailable=1), new, [old])
    assert changed == {"old": 16, "new": 4}


def test_a_paused_rollout_still_scales() -> None:
    assert sizes(rolling(4), a_set("new", 2, before=2), [], paused=True) == {"new": 4}
    assert sizes(rolling(4), a_set("new", 1), [a_set("old", 4)], paused=True) == {}


counts = st.integers(0, 12)


@given(
    replicas=st.integers(1, 12),
    surge=st.integers(0, 4),
    unavailable=st.integers(0, 4),
    data=st.data(),
)
def test_a_rollout_ends_and_on_its_way_keeps_its_limits(
    replicas: int, surge: int, unavailable: int, data: st.DataObject
) -> None:
    """Whatever order pods become available in, there are never too many nor too few."""
    unavailable = min(unavailable, replicas) or (0 if surge else 1)
    strategy = rolling(replicas, surge, unavailable)
    old = a_set("old", replicas)
    new = a_set("new", first_size(strategy, [old]), available=0)
    for _ in range(10 * replicas + 10):
        assert old.wanted + new.wanted <= strategy.most
        assert min(old.available, old.wanted) + new.available >= strategy.fewest
        changed = sizes(strategy, new, [old])
        old = replace(old, wanted=changed.get("old", old.wanted))
        old = replace(old, available=min(old.available, old.wanted))
        new = replace(new, wanted=changed.get("new", new.wanted))
        if not changed:
            if new.wanted == new.available:
                break
            more = data.draw(st.integers(1, new.wanted - new.available))
            new = replace(new, available=new.available + more)
    assert (old.wanted, new.wanted, new.available) == (0, replicas, replicas)
