"""Desired and observed in, operations and their commands out."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from labnet.backend import vxlan
from labnet.backend.outside import Outside
from labnet.kernel.fake import FakeKernel
from labnet.plan.diff import diff
from labnet.plan.explain import commands, shell
from labnet.plan.ops import Attach
from labnet.plan.state import (
    Address,
    Cable,
    Link,
    Neighbour,
    NodeState,
    Route,
    Sysctl,
)
from labnet.subnet.lease import Lease

ETH0 = Outside("eth0", IPv4Interface("192.168.50.11/24"), 1500)
OPTIONS = vxlan.Options()
BRIDGE = Link("cni0", "bridge", 1450)


def lease(n: int, host: int = 0) -> Lease:
    ip = IPv4Address("192.168.50.0") + (host or 10 + n)
    return Lease(IPv4Network(f"10.244.{n}.0/24"), ip, "vxlan", 1, vxlan.vtep_mac(ip, 1))


def lines(desired: NodeState, observed: NodeState = NodeState()) -> list[str]:  # noqa: B008
    return [shell(op) for op in diff(desired, observed)]


def test_a_tunnel_comes_before_what_hangs_on_it_and_routes_come_last() -> None:
    mac1, mac2 = lease(1).vtep_mac, lease(2).vtep_mac

    assert lines(vxlan.desired(lease(1), [lease(1), lease(2)], ETH0, OPTIONS)) == [
        f"ip link add flannel.1 address {mac1} mtu 1450 addrgenmode none up type vxlan"
        " id 1 dev eth0 local 192.168.50.11 dstport 8472 nolearning",
        "ip addr add 10.244.1.0/32 dev flannel.1",
        f"ip neigh replace 10.244.2.0 lladdr {mac2} dev flannel.1 nud permanent",
        f"bridge fdb replace {mac2} dev flannel.1 dst 192.168.50.12 self permanent",
        "ip route add 10.244.2.0/24 via 10.244.2.0 dev flannel.1 proto 76 onlink",
    ]


def test_a_node_that_moved_has_its_entries_overwritten_without_a_gap() -> None:
    before = NodeState(routes=frozenset({Route(lease(2).subnet, lease(2).public_ip, "eth0")}))
    after = NodeState(routes=frozenset({Route(lease(2).subnet, lease(9).public_ip, "eth0")}))

    assert lines(after, before) == [
        "ip route replace 10.244.2.0/24 via 192.168.50.19 dev eth0 proto 76"
    ]


def test_a_lease_that_went_loses_route_first_then_the_rest() -> None:
    both = vxlan.desired(lease(1), [lease(2)], ETH0, OPTIONS)
    alone = vxlan.desired(lease(1), [], ETH0, OPTIONS)

    assert [line.split()[:3] for line in lines(alone, both)] == [
        ["ip", "route", "del"],
        ["bridge", "fdb", "del"],
        ["ip", "neigh", "del"],
    ]


def test_a_tunnel_whose_nature_changes_is_made_anew_with_all_that_hung_on_it() -> None:
    old = vxlan.desired(lease(1), [lease(2)], ETH0, OPTIONS)
    new = vxlan.desired(lease(1), [lease(2)], ETH0, replace(OPTIONS, port=4789))

    plan = diff(new, old)

    assert [shell(op).split()[:3] for op in plan][:2] == [
        ["ip", "link", "del"],
        ["ip", "link", "add"],
    ]
    assert "port 8472 and must be" in plan[0].reason
    assert len(plan) == 6


def test_ports_come_after_their_bridge() -> None:
    port = Link("a-port", "veth", master="cni0", hairpin=True)

    assert [line.split()[3] for line in lines(NodeState(frozenset({port, BRIDGE})))] == [
        "cni0",
        "a-port",
    ]


def test_only_what_differs_is_set() -> None:
    want = replace(BRIDGE, mtu=1400, up=True)
    there = replace(BRIDGE, up=False, mac="02:00:00:00:00:01")

    assert lines(NodeState(frozenset({want})), NodeState(frozenset({there}))) == [
        "ip link set dev cni0 mtu 1400 up"
    ]


def test_any_mac_will_do_where_none_is_asked_for() -> None:
    there = NodeState(frozenset({replace(BRIDGE, mac="02:00:00:00:00:01")}))

    assert diff(NodeState(frozenset({BRIDGE})), there) == ()


def test_settings_come_first_and_are_never_taken_back() -> None:
    forward = Sysctl("net.ipv4.ip_forward", "1")
    want = NodeState(frozenset({BRIDGE}), sysctls=frozenset({forward}))

    assert lines(want)[0] == "sysctl -w net.ipv4.ip_forward=1"
    assert diff(NodeState(), NodeState(sysctls=frozenset({forward}))) == ()


def test_an_old_address_goes_before_the_new_one_comes() -> None:
    old, new = (Address("cni0", IPv4Interface(f"10.244.{n}.1/24")) for n in (1, 2))

    assert lines(
        NodeState(frozenset({BRIDGE}), frozenset({new})),
        NodeState(frozenset({BRIDGE}), frozenset({old})),
    ) == ["ip addr del 10.244.1.1/24 dev cni0", "ip addr add 10.244.2.1/24 brd + dev cni0"]


def test_a_cable_is_six_commands() -> None:
    cable = Cable(
        "veth1",
        "cni0",
        "eth0",
        IPv4Interface("10.244.1.2/24"),
        IPv4Address("10.244.1.1"),
        "0a:58:0a:f4:01:02",
        "0a:59:0a:f4:01:02",
        1450,
        hairpin=True,
    )

    assert commands(Attach(cable, "")) == (
        "ip link add veth1 address 0a:59:0a:f4:01:02 mtu 1450 addrgenmode none master cni0 up"
        " type veth peer name eth0 address 0a:58:0a:f4:01:02 mtu 1450 netns POD",
        "bridge link set dev veth1 hairpin on",
        "ip -n POD link set dev lo up",
        "ip -n POD link set dev eth0 addrgenmode none up",
        "ip -n POD addr add 10.244.1.2/24 brd + dev eth0",
        "ip -n POD route add default via 10.244.1.1 dev eth0",
    )


def test_moving_a_port_and_its_hairpin_are_two_commands() -> None:
    old = Link("veth1", "veth", master="cni0")
    new = replace(old, master="", hairpin=True)

    assert lines(NodeState(frozenset({new})), NodeState(frozenset({old}))) == [
        "ip link set dev veth1 nomaster && bridge link set dev veth1 hairpin on"
    ]


NUMBERS = st.lists(st.integers(2, 9), unique=True, max_size=5)


@given(NUMBERS, NUMBERS, st.booleans())
def test_any_state_becomes_any_other_and_then_stays(
    first: list[int], then: list[int], direct: bool
) -> None:
    eth0 = Link("eth0", "veth", mac="02:00:00:00:00:0b")
    wire = NodeState(frozenset({eth0}), frozenset({Address("eth0", ETH0.address)}))
    kernel = FakeKernel("node1", wire)
    options = replace(OPTIONS, direct_routing=direct)
    scope = vxlan.scope(ETH0, options)
    for numbers, how in ((first, OPTIONS), (then, options)):
        leases = [lease(n, 30 + n if direct else 0) for n in numbers]
        desired = vxlan.desired(lease(1), leases, ETH0, how)
        kernel.apply_all(diff(desired, kernel.observe(scope)))
        assert kernel.observe(scope) == desired
        assert diff(desired, kernel.observe(scope)) == ()


def test_a_neighbour_that_is_overwritten_is_not_deleted_first() -> None:
    old = Neighbour("flannel.1", IPv4Address("10.244.2.0"), "02:00:00:00:00:01")
    new = replace(old, mac="02:00:00:00:00:02")

    assert [
        line.split()[2]
        for line in lines(
            NodeState(neighbours=frozenset({new})), NodeState(neighbours=frozenset({old}))
        )
    ] == ["replace"]
