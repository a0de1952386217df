"""flanneld, without root: leases in, operations out."""

from __future__ import annotations

import threading
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

import pytest

from labnet.backend import vxlan
from labnet.backend.outside import Outside
from labnet.clock import FakeClock
from labnet.errors import NotFound, OpFailed, Unsupported
from labnet.kernel.fake import FakeKernel
from labnet.kernel.netfilter_fake import FakeNetfilter
from labnet.lab.components import flanneld as component
from labnet.node.flanneld.loop import Feed, run
from labnet.node.flanneld.sync import RENEW_EVERY, Flanneld, Settings
from labnet.plan.explain import shell
from labnet.plan.state import Address, Link, NodeState, Scope
from labnet.store.memory import MemoryStore
from labnet.subnet import file
from labnet.subnet.lease import Lease
from labnet.subnet.manager import TTL, Claim, Manager
from tests.conditions import eventually

CONF = '{"Network": "10.244.0.0/16", "SubnetLen": 24, "Backend": {"Type": "vxlan", "VNI": 1}}'
NODE1, NODE2 = IPv4Address("192.168.50.11"), IPv4Address("192.168.50.12")
ETH0 = NodeState(
    frozenset({Link("eth0", "veth")}),
    frozenset({Address("eth0", IPv4Interface("192.168.50.11/24"))}),
)
OUTSIDE = Outside("eth0", IPv4Interface("192.168.50.11/24"), 1500)
SECOND = Claim(NODE2, "vxlan", 1, vxlan.vtep_mac(NODE2, 1))


class Node:
    """One node with its fakes; ``again`` is a restarted flanneld on it."""

    def __init__(self, tmp_path: Path, conf: str = CONF) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock)
        self.manager = Manager(self.store)
        self.manager.publish(conf)
        self.kernel = FakeKernel("node1", ETH0)
        self.netfilter = FakeNetfilter()
        self.settings = Settings("node1", NODE1, subnet_file=tmp_path / "subnet.env")
        self.flanneld = self.again()

    def again(self) -> Flanneld:
        return Flanneld(self.settings, self.manager, self.kernel, self.netfilter, self.clock)

    def leases(self) -> tuple[Lease, ...]:
        return self.manager.leases()[0]

    def sync(self) -> list[str]:
        return [shell(op) for op in self.flanneld.sync(self.leases())]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path)
    made.flanneld.start()
    return made


def test_a_new_node_tells_the_plugin_its_subnet(node: Node) -> None:
    node.sync()

    env = file.read(node.settings.subnet_file)
    assert env == file.SubnetEnv(
        IPv4Network("10.244.0.0/16"), IPv4Network("10.244.1.0/24"), 1450, True
    )


def test_second_sync_does_nothing(node: Node) -> None:
    node.manager.acquire(SECOND)
    assert node.sync()
    rules = list(node.netfilter.log)

    assert node.sync() == []
    assert node.netfilter.log == rules


def test_a_node_that_joins_costs_one_route_one_neighbour_one_entry(node: Node) -> None:
    node.sync()
    node.manager.acquire(SECOND)

    assert [line.split()[:3] for line in node.sync()] == [
        ["ip", "neigh", "replace"],
        ["bridge", "fdb", "replace"],
        ["ip", "route", "add"],
    ]


def test_a_restart_touches_nothing_and_keeps_the_subnet(node: Node) -> None:
    node.manager.acquire(SECOND)
    node.sync()
    before = node.leases()

    node.flanneld = node.again()
    node.flanneld.start()

    assert node.sync() == []
    assert node.leases() == before


def test_what_somebody_deleted_by_hand_comes_back(node: Node) -> None:
    node.sync()
    node.kernel = node.flanneld._kernel = FakeKernel("node1", ETH0)
    node.netfilter.state = replace(node.netfilter.state, tables={})

    assert node.sync()[0].startswith("ip link add flannel.1 ")
    assert "FLANNEL-POSTRTG" in node.netfilter.state.chains("nat")


def test_pods_are_masqueraded_to_the_outside_and_forwarded(node: Node) -> None:
    node.sync()

    nat = node.netfilter.state.chains("nat")
    assert nat["POSTROUTING"] == ('-m comment --comment "flanneld masq" -j FLANNEL-POSTRTG',)
    assert node.netfilter.state.chains("filter")["FLANNEL-FWD"][0].endswith("-j ACCEPT")


def test_the_lease_is_renewed_every_hour(node: Node) -> None:
    for _ in range(30):  # hours: longer than the lease
        node.clock.advance(RENEW_EVERY)
        node.flanneld.renew()

    assert [lease.public_ip for lease in node.leases()] == [NODE1]


def test_a_lease_that_ran_out_is_taken_again_with_the_same_subnet(node: Node) -> None:
    node.sync()
    node.clock.advance(TTL + 1)
    assert node.leases() == ()

    node.flanneld.renew()

    assert [str(lease.subnet) for lease in node.leases()] == ["10.244.1.0/24"]


def test_a_lease_that_somebody_deleted_is_taken_again(node: Node) -> None:
    node.sync()
    node.clock.advance(TTL + 1)

    node.sync()

    assert [str(lease.subnet) for lease in node.leases()] == ["10.244.1.0/24"]


def test_a_subnet_lost_to_another_node_is_replaced_openly(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.sync()
    node.clock.advance(TTL + 1)
    node.manager.acquire(SECOND)  # takes 10.244.1.0/24 meanwhile

    node.sync()

    env = file.read(node.settings.subnet_file)
    assert env is not None
    assert str(env.subnet) == "10.244.2.0/24"
    assert "its pods must be made anew" in caplog.text


def test_a_public_address_that_eth0_has_not_is_refused(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.settings = replace(node.settings, public_ip=NODE2)
    node.flanneld = node.again()
    node.flanneld.start()

    with pytest.raises(NotFound, match=r"node1: eth0 has not the public address 192\.168\.50\.12"):
        node.sync()


def test_no_interface_is_said(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.settings = replace(node.settings, interface="eth9")
    node.flanneld = node.again()
    node.flanneld.start()

    with pytest.raises(NotFound, match="node1 has no interface eth9"):
        node.sync()


def test_a_refusal_does_not_keep_the_rest_from_being_done(tmp_path: Path) -> None:
    node = Node(tmp_path, CONF.replace("vxlan", "host-gw"))
    node.flanneld.start()
    node.manager.acquire(Claim(NODE2, "host-gw"))
    node.manager.acquire(Claim(IPv4Address("203.0.113.9"), "host-gw"))  # not on this wire

    with pytest.raises(OpFailed, match=r"via 203\.0\.113\.9 .*unreachable"):
        node.sync()

    assert file.read(node.settings.subnet_file)
    routes = node.kernel.observe(Scope(routes=frozenset({"eth0"}))).routes
    assert {str(r.dst) for r in routes} == {"10.244.2.0/24"}


def test_changing_the_backend_removes_the_tunnel(node: Node, tmp_path: Path) -> None:
    node.sync()
    kernel = node.kernel
    node = Node(tmp_path, CONF.replace("vxlan", "host-gw"))
    node.kernel = kernel
    node.flanneld = node.again()
    node.flanneld.start()

    assert node.sync() == ["ip link del flannel.1"]
    env = file.read(node.settings.subnet_file)
    assert env is not None
    assert env.mtu == 1500


def test_an_unknown_backend_says_which_there_are(tmp_path: Path) -> None:
    node = Node(tmp_path, CONF.replace("vxlan", "wireguard"))

    with pytest.raises(Unsupported, match="'wireguard' is not there") as caught:
        node.flanneld.start()
    assert "host-gw" in caught.value.hint


def test_the_component_follows_leases_until_it_is_stopped(tmp_path: Path) -> None:
    node = Node(tmp_path)
    feed = Feed(node.store)
    loop = threading.Thread(target=run, args=(node.flanneld, node.manager, feed, CONF), daemon=True)
    loop.start()
    other = node.manager.acquire(SECOND).lease

    eventually(lambda: node.kernel.observe(vxlan.scope(OUTSIDE, vxlan.Options())).routes)
    feed.stop()
    loop.join(5)

    assert not loop.is_alive()
    routes = node.kernel.observe(vxlan.scope(OUTSIDE, vxlan.Options())).routes
    assert [r.dst for r in routes] == [other.subnet]


def test_the_configuration_of_the_component_is_read() -> None:
    c = component.parse(
        {
            "node": "node2",
            "etcd": "192.168.50.10:2379",
            "etcd_ca": "ca",
            "etcd_cert": "cert",
            "etcd_key": "key",
            "public_ip": "192.168.50.12",
            "net_conf": {"Network": "10.244.0.0/16"},
            "subnet": "10.244.1.0/24",
            "reserved_subnets": ["10.244.2.0/24"],
            "subnet_file": "/run/flannel/subnet.env",
        }
    )

    assert c.net_conf == '{"Network": "10.244.0.0/16"}'
    assert c.settings == Settings(
        "node2",
        NODE2,
        pinned=IPv4Network("10.244.1.0/24"),
        reserved=(IPv4Network("10.244.2.0/24"),),
    )
    assert c.tls.ca == "ca"
