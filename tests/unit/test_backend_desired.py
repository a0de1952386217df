"""What each flannel backend asks of a node, lease by lease."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

import pytest

from labnet.backend import host_gw, masquerade, vxlan
from labnet.backend.outside import Outside
from labnet.plan.netfilter import render_save
from labnet.plan.state import Forwarding, Neighbour, Route
from labnet.subnet.lease import Lease

ETH0 = Outside("eth0", IPv4Interface("192.168.50.11/24"), 1500)


def lease(n: int, kind: str = "vxlan", ip: str = "", vni: int = 1) -> Lease:
    address = IPv4Address(ip or f"192.168.50.1{n}")
    mac = vxlan.vtep_mac(address, vni) if kind == "vxlan" else ""
    return Lease(IPv4Network(f"10.244.{n}.0/24"), address, kind, vni if mac else 0, mac)


def test_vxlan_needs_three_entries_per_remote_node() -> None:
    state = vxlan.desired(lease(1), [lease(1), lease(2)], ETH0, vxlan.Options())

    gateway, mac = IPv4Address("10.244.2.0"), lease(2).vtep_mac
    assert state.routes == {Route(lease(2).subnet, gateway, "flannel.1", onlink=True)}
    assert state.neighbours == {Neighbour("flannel.1", gateway, mac)}
    assert state.forwardings == {Forwarding("flannel.1", mac, lease(2).public_ip)}


def test_the_tunnel_takes_fifty_bytes_of_every_packet() -> None:
    state = vxlan.desired(lease(1), [], ETH0, vxlan.Options())

    tunnel = state.link("flannel.1")
    assert tunnel is not None
    assert tunnel.mtu == 1450
    assert vxlan.mtu(ETH0, vxlan.Options(mtu=1400)) == 1350


def test_direct_routing_spares_the_tunnel_on_the_same_wire_only() -> None:
    near, far = lease(2), lease(3, ip="172.16.0.13")

    state = vxlan.desired(lease(1), [near, far], ETH0, vxlan.Options(direct_routing=True))

    assert state.routes == {
        Route(near.subnet, near.public_ip, "eth0"),
        Route(far.subnet, far.subnet.network_address, "flannel.1", onlink=True),
    }
    assert {f.dst for f in state.forwardings} == {far.public_ip}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lease(2, "host-gw"), id="another backend"),
        pytest.param(lease(2, vni=7), id="another network"),
        pytest.param(replace(lease(2), vtep_mac=""), id="no MAC"),
    ],
)
def test_vxlan_leaves_alone_what_it_cannot_reach(other: Lease) -> None:
    state = vxlan.desired(lease(1), [other], ETH0, vxlan.Options())

    assert not state.routes
    assert not state.forwardings


def test_a_vtep_mac_is_local_unicast_and_always_the_same() -> None:
    mac = vxlan.vtep_mac(IPv4Address("192.168.50.11"), 1)

    assert mac == vxlan.vtep_mac(IPv4Address("192.168.50.11"), 1)
    assert mac != vxlan.vtep_mac(IPv4Address("192.168.50.12"), 1)
    assert int(mac[:2], 16) & 3 == 2


def test_vxlan_options_have_flannels_defaults() -> None:
    assert vxlan.parse({"Type": "vxlan"}) == vxlan.Options(1, 8472, False, 0)
    assert vxlan.parse({"VNI": 5, "Port": 4789, "DirectRouting": True}).device == "flannel.5"


def test_host_gw_is_one_plain_route_per_node_and_no_tunnel() -> None:
    leases = [lease(1, "host-gw"), lease(2, "host-gw"), lease(3)]

    state = host_gw.desired(leases[0], leases, ETH0)

    assert state.routes == {Route(leases[1].subnet, leases[1].public_ip, "eth0")}
    assert not state.links
    assert host_gw.mtu(ETH0, {}) == 1500
    assert "flannel.1" in host_gw.scope(ETH0).links  # one that vxlan left goes


def test_masquerade_rules_are_flannels_in_their_order() -> None:
    wanted = masquerade.wanted(IPv4Network("10.244.0.0/16"), IPv4Network("10.244.1.0/24"))

    note = '-m comment --comment "flanneld masq"'
    assert wanted.state.chains("nat")["FLANNEL-POSTRTG"] == (
        f"-m mark --mark 0x4000/0x4000 {note} -j RETURN",
        f"-s 10.244.1.0/24 -d 10.244.0.0/16 {note} -j RETURN",
        f"-s 10.244.0.0/16 -d 10.244.1.0/24 {note} -j RETURN",
        f"! -s 10.244.0.0/16 -d 10.244.1.0/24 {note} -j RETURN",
        f"-s 10.244.0.0/16 ! -d 224.0.0.0/4 {note} -j MASQUERADE --random-fully",
        f"! -s 10.244.0.0/16 -d 10.244.0.0/16 {note} -j MASQUERADE --random-fully",
    )
    assert "-A FLANNEL-FWD -s 10.244.0.0/16" in render_save(wanted.state)


def test_without_masquerade_forwarding_is_still_allowed() -> None:
    wanted = masquerade.wanted(
        IPv4Network("10.244.0.0/16"), IPv4Network("10.244.1.0/24"), masquerade=False
    )

    assert set(wanted.state.tables) == {"filter"}
