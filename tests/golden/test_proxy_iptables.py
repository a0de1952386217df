"""The rules of both styles, whole, as ``iptables-save`` prints them.

``tests/golden/proxy`` holds one file per style for the cluster of the packet table, and
the articles' own rules, which must appear letter for letter.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from labnet.plan.netfilter import render_save
from labnet.proxy.iptables.planner import Style, rules_for
from labnet.proxy.iptables.rules import RuleConfig, probabilities
from labnet.proxy.model import Endpoint, Portal, ServicePort
from tests.flow.cluster import state

FOLDER = Path(__file__).parent / "proxy"
IP = IPv4Address
MY_NGINX = Portal(
    ServicePort("default", "my-nginx", "", "TCP", IP("10.11.97.177"), 80),
    (Endpoint(IP("10.244.1.10"), 80), Endpoint(IP("10.244.2.10"), 80)),
)
FRONT_END = Portal(
    ServicePort("sock-shop", "front-end", "", "TCP", IP("10.15.9.0"), 80, node_port=30001),
    (Endpoint(IP("10.244.2.5"), 8079),),
)


@pytest.mark.parametrize("style", ["current", "v1.2"])
def test_whole_state(style: Style, update_golden: bool) -> None:
    golden = FOLDER / f"{style}.rules"
    text = render_save(state(style))
    if update_golden:
        golden.write_text(text)

    assert text == golden.read_text()


def test_the_articles_rules_letter_for_letter() -> None:
    config = RuleConfig(IPv4Network("10.244.0.0/16"), IP("192.168.50.11"))
    wanted = rules_for("v1.2", [MY_NGINX, FRONT_END], config).state
    written = [f"-A {c} {r}" for c, rules in wanted.chains("nat").items() for r in rules]
    articles = (FOLDER / "articles.rules").read_text().splitlines()

    assert [line for line in articles if line not in written] == []
    for chain in {line.split()[1] for line in articles}:
        ours = [line for line in written if line.split()[1] == chain and line in articles]
        assert ours == [line for line in articles if line.split()[1] == chain]


def test_the_articles_services_have_no_rule_beyond_theirs() -> None:
    config = RuleConfig(IPv4Network("10.244.0.0/16"), IP("192.168.50.11"))
    wanted = rules_for("v1.2", [MY_NGINX, FRONT_END], config).state
    articles = (FOLDER / "articles.rules").read_text().splitlines()
    of_services = [
        f"-A {c} {r}"
        for c, rules in wanted.chains("nat").items()
        for r in rules
        if "my-nginx" in r or "front-end" in r
    ]

    assert sorted(of_services) == sorted(articles)


def test_each_of_n_endpoints_gets_an_equal_share() -> None:
    left, shares = 1.0, []
    for chance in probabilities(7, 10):
        shares.append(left * float(chance or 1))
        left -= shares[-1]

    assert shares == pytest.approx([1 / 7] * 7, abs=1e-8)
    assert probabilities(1, 10) == ("",)
    assert probabilities(0, 10) == ()
