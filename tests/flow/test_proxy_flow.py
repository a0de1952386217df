"""The table of packets, followed by hand through the planned rules."""

from __future__ import annotations

from functools import cache
from ipaddress import IPv4Address, IPv4Network

import pytest

from labnet.backend import masquerade
from labnet.errors import Unsupported
from labnet.plan.netfilter import NetfilterState
from labnet.plan.netfilter_diff import diff
from labnet.plan.netfilter_effect import applied
from labnet.proxy.flow import Node, Outcome, Packet, parsed, trace
from labnet.proxy.iptables.planner import Style
from tests.flow.cluster import PLACES, PORT, ROWS, Row, rules, state

NODE = Node(frozenset(map(IPv4Address, ("192.168.50.11", "10.244.2.1"))))
STYLES: tuple[Style, ...] = ("current", "v1.2")
STATES = {style: state(style) for style in STYLES}


def packet(row: Row) -> Packet:
    target, _, protocol = row.destination.partition("/")
    address, _, port = target.partition(":")
    return Packet(
        IPv4Address(PLACES[row.source]), IPv4Address(address), int(port), protocol or "tcp"
    )


def outcomes(row: Row, style: str) -> set[Outcome]:
    to, masqueraded = row.expected(style)
    if to == "-":
        return {Outcome("ACCEPT", row.destination.partition("/")[0])}
    if to in ("REJECT", "DROP"):
        return {Outcome(to)}
    return {Outcome("ACCEPT", f"{PLACES[pod]}:{PORT}", masqueraded) for pod in to.split()}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_packet(row: Row, style: Style) -> None:
    assert trace(STATES[style], packet(row), NODE) == outcomes(row, style)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("first", ["kube-proxy", "flanneld"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_packet_where_flannel_has_rules_too(row: Row, first: str, style: Style) -> None:
    """Whoever came first: flannel accepts pods' packets, but not before kube-proxy's word.

    What it masquerades besides is its own affair.
    """
    found = trace(both(style, first), packet(row), NODE)
    expected = outcomes(row, style)

    assert {(o.verdict, o.destination) for o in found} == {
        (o.verdict, o.destination) for o in expected
    }


@cache
def both(style: Style, first: str) -> NetfilterState:
    flannel = masquerade.wanted(IPv4Network("10.244.0.0/16"), IPv4Network("10.244.2.0/24"))
    wanted = [rules(style), flannel]
    state = NetfilterState()
    for one in wanted if first == "kube-proxy" else reversed(wanted):
        state = applied(state, diff(one, state))
    return state


def test_a_remembered_client_stays_with_its_endpoint() -> None:
    rules = {
        "nat": {
            "PREROUTING": ("-j KUBE-SVC-X",),
            "KUBE-SVC-X": (
                "-m recent --rcheck --seconds 10 --reap --name KUBE-SEP-B"
                " --mask 255.255.255.255 --rsource -j KUBE-SEP-B",
                "-m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-A",
                "-j KUBE-SEP-B",
            ),
            "KUBE-SEP-A": ("-p tcp -m tcp -j DNAT --to-destination 10.0.0.1:80",),
            "KUBE-SEP-B": ("-p tcp -m tcp -j DNAT --to-destination 10.0.0.2:80",),
        }
    }
    start = Packet(IPv4Address("10.9.9.9"), IPv4Address("10.96.0.1"), 80)
    knows = Node(NODE.addresses, remembered=frozenset({"KUBE-SEP-B"}))

    assert len(trace(NetfilterState(rules), start, NODE)) == 2
    assert trace(NetfilterState(rules), start, knows) == {Outcome("ACCEPT", "10.0.0.2:80")}


def test_an_invalid_packet_is_dropped_before_it_reaches_a_pod() -> None:
    stray = Packet(IPv4Address("192.168.50.100"), IPv4Address("10.244.2.10"), PORT, state="INVALID")

    assert trace(STATES["current"], stray, NODE) == {Outcome("DROP")}


def test_outsiders_do_not_reach_loopback_through_the_node() -> None:
    stray = Packet(IPv4Address("192.168.50.100"), IPv4Address("127.0.0.1"), 6443)

    assert trace(STATES["current"], stray, NODE) == {Outcome("DROP")}


def test_an_unknown_match_is_not_guessed() -> None:
    with pytest.raises(Unsupported, match="--ports"):
        parsed("-p tcp -m multiport --ports 1,2 -j ACCEPT")
