"""Every netfilter, in memory or real, keeps these promises.

Each test runs twice: against FakeNetfilter on any machine, and against iptables where a
network namespace can be made. A fake that is kinder than the kernel fails here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labnet.kernel.netfilter import LinuxNetfilter
from labnet.kernel.netfilter_fake import FakeNetfilter
from labnet.plan.netfilter import (
    NetfilterKernel,
    Transaction,
    TransactionRefused,
    TransactionTooLarge,
)
from labnet.plan.netfilter_diff import BUDGET, diff, weight
from tests.flow.cluster import rules

REMARK = '-m comment --comment "default/my-nginx: cluster IP"'
TO_SVC = f"-d 10.11.97.177/32 -p tcp {REMARK} -m tcp --dport 80 -j KUBE-SVC-X"


def nat(*lines: str) -> Transaction:
    return Transaction("nat", lines, "test")


def apply(kernel: NetfilterKernel, *lines: str) -> None:
    kernel.apply_netfilter([nat(*lines)])


def chains(kernel: NetfilterKernel) -> dict[str, tuple[str, ...]]:
    return dict(kernel.observe_netfilter().chains("nat"))


REFUSED = {
    "a jump to a chain that is not there": ("-A A -j NOWHERE",),
    "a rule in a chain that is not there": ("-A NOWHERE -j ACCEPT",),
    "a second chain of that name": ("-N A",),
    "a chain that something jumps to": (":B - [0:0]", "-A A -j B", "-X B"),
    "a chain that is not empty": ("-A A -j ACCEPT", "-X A"),
    "deleting a rule that is not there": ("-D A -s 10.0.0.1/32 -j ACCEPT",),
    "inserting behind the end": ("-I A 3 -j ACCEPT",),
    "a name of more than 28 characters": (f":{'A' * 29} - [0:0]",),
}


class Promises:
    """The suite; the two classes below run it."""

    @pytest.fixture
    def kernel(self) -> NetfilterKernel:
        raise NotImplementedError

    def test_starts_with_no_table(self, kernel: NetfilterKernel) -> None:
        assert kernel.observe_netfilter().tables == {}

    def test_reports_back_what_was_written(self, kernel: NetfilterKernel) -> None:
        apply(kernel, ":KUBE-SVC-X - [0:0]", ":KUBE-SERVICES - [0:0]", f"-A KUBE-SERVICES {TO_SVC}")

        assert chains(kernel) == {
            **dict.fromkeys(("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"), ()),
            "KUBE-SVC-X": (),
            "KUBE-SERVICES": (TO_SVC,),
        }

    def test_a_chain_line_empties_a_chain_that_is_there(self, kernel: NetfilterKernel) -> None:
        apply(kernel, ":A - [0:0]", "-A A -j ACCEPT")
        apply(kernel, ":A - [0:0]", "-A A -j RETURN")

        assert chains(kernel)["A"] == ("-j RETURN",)

    def test_inserts_and_deletes_by_number_and_by_text(self, kernel: NetfilterKernel) -> None:
        apply(kernel, ":A - [0:0]", *(f"-A A -s 10.0.0.{n}/32 -j ACCEPT" for n in (1, 2, 3)))
        apply(
            kernel,
            "-I A 2 -s 10.0.0.9/32 -j ACCEPT",
            "-I A -s 10.0.0.8/32 -j ACCEPT",
            "-D A 3",
            "-D A -s 10.0.0.3/32 -j ACCEPT",
        )

        assert [rule[3:11] for rule in chains(kernel)["A"]] == ["10.0.0.8", "10.0.0.1", "10.0.0.2"]

    @pytest.mark.parametrize("case", REFUSED)
    def test_refuses(self, kernel: NetfilterKernel, case: str) -> None:
        apply(kernel, ":A - [0:0]")

        with pytest.raises(TransactionRefused) as caught:
            apply(kernel, *REFUSED[case])

        assert caught.value.line == REFUSED[case][-1]
        assert chains(kernel)["A"] == ()  # all or nothing

    def test_what_came_before_a_refused_transaction_stays(self, kernel: NetfilterKernel) -> None:
        bad = nat(":C - [0:0]", "-A C -j NOWHERE")

        with pytest.raises(TransactionRefused) as caught:
            kernel.apply_netfilter([nat(":A - [0:0]"), bad, nat(":D - [0:0]")])

        assert caught.value.refused == bad
        assert chains(kernel).keys() & {"A", "C", "D"} == {"A"}

    def test_every_rule_of_both_styles_reads_back_as_it_was_written(
        self, kernel: NetfilterKernel
    ) -> None:
        for style in ("v1.2", "current"):
            wanted = rules(style)
            kernel.apply_netfilter(diff(wanted, kernel.observe_netfilter()))

            assert diff(wanted, kernel.observe_netfilter()) == ()

    def test_a_transaction_within_the_budget_is_never_too_large(
        self, kernel: NetfilterKernel
    ) -> None:
        rule = (
            f"-p tcp {REMARK} -m recent --set --name KUBE-SEP-X --mask 255.255.255.255 --rsource"
            " -m tcp -j DNAT --to-destination 10.244.1.10:80"
        )
        lines = [f"-A A {rule}"] * (BUDGET // weight(f"-A A {rule}"))

        apply(kernel, ":A - [0:0]", *lines)

        assert len(chains(kernel)["A"]) == len(lines)


class TestFake(Promises):
    """In memory."""

    @pytest.fixture
    def kernel(self) -> NetfilterKernel:
        return FakeNetfilter()


@pytest.mark.netns
@pytest.mark.iptables
class TestLinux(Promises):
    """iptables, in a network namespace of its own."""

    @pytest.fixture
    def kernel(self, own_netns: None) -> Iterator[NetfilterKernel]:
        with LinuxNetfilter() as real:
            yield real


def test_a_transaction_too_large_for_the_socket_says_so() -> None:
    kernel = FakeNetfilter(capacity=1000)

    with pytest.raises(TransactionTooLarge):
        apply(kernel, *(f":A{n} - [0:0]" for n in range(20)))
