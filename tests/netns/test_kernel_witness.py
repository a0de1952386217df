"""What our own netlink encoder wrote, as pyroute2 reads it: a witness that is not ours.

The encoder and the decoder could share a misunderstanding and agree with each other for
ever. pyroute2 knows nothing of either.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

import pytest
from pyroute2 import IPRoute

from labnet.kernel.linux import LinuxKernel
from labnet.plan.diff import diff
from labnet.plan.state import (
    ROUTE_PROTOCOL,
    Address,
    Forwarding,
    Link,
    Neighbour,
    NodeState,
    Route,
    Vxlan,
)

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("own_netns")]
MAC = "0a:58:0a:f4:01:00"
REMOTE = IPv4Address("10.244.1.0")
WIRE = NodeState(
    links=frozenset({Link("wire", "bridge", mtu=1500)}),
    addresses=frozenset({Address("wire", IPv4Interface("192.168.50.11/24"))}),
)
DESIRED = NodeState(
    links=frozenset(
        {
            Link("cni0", "bridge", mtu=1450),
            Link(
                "flannel.1",
                "vxlan",
                mtu=1450,
                mac="0a:58:0a:f4:02:00",
                vxlan=Vxlan(1, 8472, IPv4Address("192.168.50.11"), "wire"),
            ),
        }
    ),
    addresses=frozenset({Address("flannel.1", IPv4Interface("10.244.2.0/32"))}),
    routes=frozenset({Route(IPv4Network("10.244.1.0/24"), REMOTE, "flannel.1", onlink=True)}),
    neighbours=frozenset({Neighbour("flannel.1", REMOTE, MAC)}),
    forwardings=frozenset({Forwarding("flannel.1", MAC, IPv4Address("192.168.50.12"))}),
)


@pytest.fixture
def witness() -> Iterator[IPRoute]:
    with LinuxKernel("node1") as kernel:
        for state in (WIRE, DESIRED):
            kernel.apply_all(diff(state, NodeState()))
    with IPRoute() as ip:
        yield ip


def _link(ip: IPRoute, name: str) -> Any:
    return next(iter(ip.link("get", index=ip.link_lookup(ifname=name)[0])))


def test_the_tunnel_is_as_flannel_makes_it(witness: IPRoute) -> None:
    link = _link(witness, "flannel.1")
    data = link.get(("linkinfo", "data"))

    assert link.get("address") == "0a:58:0a:f4:02:00"
    assert link.get("mtu") == 1450
    assert (data.get("vxlan_id"), data.get("vxlan_port"), data.get("vxlan_learning")) == (
        1,
        8472,
        0,
    )
    assert data.get("vxlan_local") == "192.168.50.11"
    assert data.get("vxlan_link") == witness.link_lookup(ifname="wire")[0]


def test_the_route_is_onlink_and_carries_our_protocol(witness: IPRoute) -> None:
    (route,) = [r for r in witness.route("dump", family=2) if r["proto"] == ROUTE_PROTOCOL]

    assert (route.get("dst"), route["dst_len"], route.get("gateway")) == (
        "10.244.1.0",
        24,
        str(REMOTE),
    )
    assert route["flags"] & 4  # RTNH_F_ONLINK


def test_the_neighbour_is_permanent(witness: IPRoute) -> None:
    index = witness.link_lookup(ifname="flannel.1")[0]
    (entry,) = witness.neigh("dump", family=2, ifindex=index)

    assert (entry.get("dst"), entry.get("lladdr"), entry["state"]) == (str(REMOTE), MAC, 0x80)


def test_the_forwarding_entry_leads_to_the_node(witness: IPRoute) -> None:
    index = witness.link_lookup(ifname="flannel.1")[0]
    entries = [f for f in witness.fdb("dump", ifindex=index) if f.get("lladdr") == MAC]

    assert [entry.get("dst") for entry in entries] == ["192.168.50.12"]
