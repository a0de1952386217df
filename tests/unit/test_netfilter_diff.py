"""What is written, in which order, and that nothing else is touched."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labnet.plan.netfilter import (
    Hook,
    NetfilterState,
    Transaction,
    Wanted,
    jump_target,
    parse_save,
    render_save,
)
from labnet.plan.netfilter_diff import diff
from labnet.plan.netfilter_effect import BUILT_IN, applied

EMPTY = NetfilterState()
SHARED = frozenset({"ALL"})
HOOK = Hook("nat", "PREROUTING", "-j ALL")


def wanted(**services: int) -> Wanted:
    """Return services with so many endpoints each, in this project's shape."""
    chains: dict[str, tuple[str, ...]] = {}
    for name, count in services.items():
        eps = [f"SEP-{name}-{n}" for n in range(count)]
        chains |= {
            ep: (f"-p tcp -j DNAT --to-destination 10.0.0.{n}:80",) for n, ep in enumerate(eps)
        }
        chains[f"SVC-{name}"] = tuple(f"-j {ep}" for ep in eps)
    chains["ALL"] = (*(f"-d 10.1.0.1/32 -j SVC-{name}" for name in services), "-j RETURN")
    return Wanted(
        NetfilterState({"nat": chains}), hooks=(HOOK,), owned=("ALL", "SVC-", "SEP-"), shared=SHARED
    )


def lines(plan: tuple[Transaction, ...]) -> list[str]:
    return [line for transaction in plan for line in transaction.lines]


def after(target: Wanted, state: NetfilterState = EMPTY) -> NetfilterState:
    return applied(state, diff(target, state))


def test_second_diff_is_empty() -> None:
    assert diff(wanted(a=2, b=1), after(wanted(a=2, b=1))) == ()


def test_chains_come_before_what_jumps_to_them() -> None:
    assert lines(diff(wanted(a=1), EMPTY)) == [
        ":SEP-a-0 - [0:0]",
        "-A SEP-a-0 -p tcp -j DNAT --to-destination 10.0.0.0:80",
        ":SVC-a - [0:0]",
        "-A SVC-a -j SEP-a-0",
        ":ALL - [0:0]",
        "-A ALL -d 10.1.0.1/32 -j SVC-a",
        "-A ALL -j RETURN",
        "-I PREROUTING -j ALL",
    ]


def test_only_what_changed_is_written() -> None:
    before = after(wanted(a=1, b=1))

    assert lines(diff(wanted(a=1, b=2), before)) == [
        ":SEP-b-1 - [0:0]",
        "-A SEP-b-1 -p tcp -j DNAT --to-destination 10.0.0.1:80",
        ":SVC-b - [0:0]",
        "-A SVC-b -j SEP-b-0",
        "-A SVC-b -j SEP-b-1",
    ]


def test_a_new_service_is_inserted_before_the_last_rule() -> None:
    before = after(wanted(a=1))

    assert "-I ALL 2 -d 10.1.0.1/32 -j SVC-b" in lines(diff(wanted(a=1, b=1), before))


def test_deletions_come_last_and_callers_go_first() -> None:
    before = after(wanted(a=1, b=1))

    assert lines(diff(wanted(a=1), before)) == [
        "-D ALL -d 10.1.0.1/32 -j SVC-b",
        ":SVC-b - [0:0]",
        "-X SVC-b",
        ":SEP-b-0 - [0:0]",
        "-X SEP-b-0",
    ]


def test_foreign_rules_and_chains_stay_as_they_are() -> None:
    foreign = parse_save(
        "*nat\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:THEIRS - [0:0]\n"
        "-A PREROUTING -j THEIRS\n-A THEIRS -s 10.9.9.9/32 -j RETURN\nCOMMIT\n"
    )
    there = after(wanted(a=1), foreign)

    assert there.chains("nat")["PREROUTING"] == ("-j ALL", "-j THEIRS")
    assert after(Wanted(EMPTY, owned=("ALL", "SVC-", "SEP-")), there) == foreign


def test_a_jump_that_nobody_wants_any_more_is_unhooked() -> None:
    there = after(wanted(a=1))
    moved = Wanted(
        wanted(a=1).state, (Hook("nat", "OUTPUT", "-j ALL"),), ("ALL", "SVC-", "SEP-"), SHARED
    )

    assert lines(diff(moved, there)) == ["-I OUTPUT -j ALL", "-D PREROUTING -j ALL"]


def test_a_hook_in_a_chain_that_is_not_there_makes_it() -> None:
    hooks = (Hook("filter", "INPUT", "-j FW"), Hook("filter", "FW", "-j DROP"))

    plan = diff(Wanted(NetfilterState({"filter": {}}), hooks), EMPTY)

    assert lines(plan) == [":FW - [0:0]", "-I FW -j DROP", "-I INPUT -j FW"]


def test_a_last_hook_goes_behind_what_others_have_there() -> None:
    foreign = parse_save("*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j THEIRS\nCOMMIT\n")
    hooks = (Hook("filter", "FORWARD", "-j FIRST"), Hook("filter", "FORWARD", "-j LAST", last=True))

    plan = diff(Wanted(NetfilterState(), hooks), foreign)

    assert lines(plan) == ["-A FORWARD -j LAST", "-I FORWARD -j FIRST"]


def test_a_chain_is_never_torn_apart_by_the_budget() -> None:
    plan = diff(wanted(a=5), EMPTY, budget=300)

    assert len(plan) > 5
    assert any(len([x for x in t.lines if x.startswith("-A SVC-a")]) == 5 for t in plan)


RULES = st.lists(st.sampled_from([f"-s 10.0.0.{n}/32 -j RETURN" for n in range(8)]), max_size=12)


@given(old=RULES, new=RULES)
@settings(max_examples=300)
def test_a_shared_chain_heals_from_any_order_and_any_copies(old: list[str], new: list[str]) -> None:
    there = NetfilterState({"nat": {**dict.fromkeys(BUILT_IN["nat"], ()), "ALL": tuple(old)}})
    unique = tuple(dict.fromkeys(new))
    target = Wanted(NetfilterState({"nat": {"ALL": unique}}), owned=("ALL",), shared=SHARED)

    healed = after(target, there)

    assert healed.chains("nat")["ALL"] == unique
    assert diff(target, healed) == ()


COUNTS = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 4), max_size=5)


@given(first=COUNTS, second=COUNTS, budget=st.sampled_from([1, 700, 120_000]))
def test_every_step_between_two_states_is_one_the_kernel_takes(
    first: dict[str, int], second: dict[str, int], budget: int
) -> None:
    there = after(wanted(**first))

    there = applied(there, diff(wanted(**second), there, budget))

    assert diff(wanted(**second), there) == ()


@given(first=COUNTS, second=COUNTS)
def test_an_unchanged_service_works_at_every_step(
    first: dict[str, int], second: dict[str, int]
) -> None:
    """Whatever else changes, `kept` is there after each transaction."""
    there = after(wanted(**first, kept=2))

    for transaction in diff(wanted(**second, kept=2), there, 1):
        there = applied(there, [transaction])
        chains = there.chains("nat")
        assert "-d 10.1.0.1/32 -j SVC-kept" in chains["ALL"]
        assert chains["SVC-kept"] == ("-j SEP-kept-0", "-j SEP-kept-1")


@pytest.mark.parametrize(
    ("rule", "target"),
    [
        ("-j KUBE-SERVICES", "KUBE-SERVICES"),
        ('-p tcp -m comment --comment "x -y" -j DNAT --to-destination 1.2.3.4:80', "DNAT"),
        ("-s 10.0.0.0/8 -g ELSEWHERE", "ELSEWHERE"),
        ("-s 10.0.0.0/8", ""),
    ],
)
def test_jump_target(rule: str, target: str) -> None:
    assert jump_target(rule) == target


def test_a_saved_state_parses_back() -> None:
    state = after(wanted(a=2))

    assert parse_save(render_save(state)) == state
