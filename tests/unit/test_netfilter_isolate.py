"""A refused rule costs its own service and nobody else."""

from __future__ import annotations

import pytest

from labnet.errors import OpFailed
from labnet.kernel.netfilter_fake import FakeNetfilter
from labnet.node.kube_proxy.program import program
from labnet.plan.netfilter import NetfilterState, Wanted
from labnet.proxy.iptables.planner import OWNED, SHARED
from tests.flow.cluster import rules


def chains(kernel: FakeNetfilter, table: str = "nat") -> dict[str, tuple[str, ...]]:
    return dict(kernel.state.chains(table))


def text_of(kernel: FakeNetfilter) -> str:
    return "\n".join(r for t in kernel.state.tables.values() for rs in t.values() for r in rs)


def test_one_refused_endpoint_takes_its_service_and_no_other() -> None:
    kernel = FakeNetfilter()
    kernel.refuse = {'"flow/np" -m tcp -j DNAT'}

    done = program(rules("current"), kernel)

    assert done.refused
    assert '"flow/np' not in text_of(kernel)
    assert '"flow/web' in text_of(kernel)
    assert all("flow/np" in str(refusal) for refusal in done.refused)


def test_a_refused_line_of_a_shared_chain_goes_alone() -> None:
    kernel = FakeNetfilter()
    kernel.refuse = {"flow/web cluster IP"}

    program(rules("current"), kernel)

    assert not [r for r in chains(kernel)["KUBE-SERVICES"] if "flow/web" in r]
    assert [r for r in chains(kernel)["KUBE-SERVICES"] if "flow/itself" in r]


def test_a_refused_masquerade_leaves_the_translation() -> None:
    kernel = FakeNetfilter()
    kernel.refuse = {"--random-fully"}

    done = program(rules("current"), kernel)

    assert len(done.refused) == 1
    assert '"flow/web' in text_of(kernel)


def test_what_is_refused_today_is_tried_again_tomorrow() -> None:
    kernel = FakeNetfilter()
    kernel.refuse = {"flow/web"}
    program(rules("v1.2"), kernel)
    kernel.refuse = set()

    assert not program(rules("v1.2"), kernel).refused
    assert program(rules("v1.2"), kernel).written == ()


def test_a_stale_chain_that_somebody_else_uses_is_left_to_them() -> None:
    theirs = {"THEIRS": ("-j KUBE-SVC-OLD",), "KUBE-SVC-OLD": (), "KUBE-SVC-OLDER": ()}
    kernel = FakeNetfilter(NetfilterState({"nat": theirs}))

    done = program(Wanted(NetfilterState(), owned=OWNED, shared=SHARED), kernel)

    assert chains(kernel) == {"THEIRS": ("-j KUBE-SVC-OLD",), "KUBE-SVC-OLD": ()}
    assert ["-X KUBE-SVC-OLD:" in str(r) for r in done.refused] == [True]


def test_a_small_socket_gets_smaller_transactions() -> None:
    kernel = FakeNetfilter(capacity=10_000)

    program(rules("current"), kernel)

    assert len(kernel.log) > 5
    assert program(rules("current"), kernel).written == ()


def test_a_socket_that_takes_nothing_is_an_error() -> None:
    with pytest.raises(OpFailed):
        program(rules("current"), FakeNetfilter(capacity=100))


def test_switching_the_style_leaves_nothing_of_the_other() -> None:
    kernel, fresh = FakeNetfilter(), FakeNetfilter()
    program(rules("v1.2"), kernel)
    program(rules("current"), kernel)
    program(rules("current"), fresh)

    assert kernel.state == fresh.state
