"""Two nodes and a client on a wire, a pod on each node: what flannel must carry."""

from __future__ import annotations

import os
import socket
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from labnet.clock import SystemClock
from labnet.kernel.linux import LinuxKernel
from labnet.kernel.netfilter import LinuxNetfilter
from labnet.kernel.netns import inside, own_netns
from labnet.lab import underlay
from labnet.node.flanneld.sync import Flanneld, Settings
from labnet.node.network import BridgeNetwork
from labnet.plan.ops import Plan
from labnet.store.memory import MemoryStore
from labnet.subnet.manager import Manager
from tests.own_netns import in_netns, new_netns

pytestmark = [
    pytest.mark.netns,
    pytest.mark.iptables,
    pytest.mark.usefixtures("own_netns"),
]
ADDRESSES = {"node1": "192.168.50.11", "node2": "192.168.50.12", "client": "192.168.50.100"}
VXLAN = '{"Type": "vxlan", "VNI": 1, "Port": 8472}'
DIRECT = '{"Type": "vxlan", "DirectRouting": true}'
HOST_GW = '{"Type": "host-gw"}'


class Node:
    """A node's namespace, its flanneld and its pod network."""

    def __init__(self, name: str, netns: int, home: int, manager: Manager, where: Path) -> None:
        self.name, self.netns, self.home, self.manager = name, netns, home, manager
        env = where / name / "subnet.env"
        self.kernel = LinuxKernel(name)
        self.netfilter: LinuxNetfilter | None = None
        self.settings = Settings(name, IPv4Address(ADDRESSES[name]), subnet_file=env)
        self.network = BridgeNetwork(self.kernel, env, where / name / "cni")
        with inside(netns, home):
            self.flanneld = self.again()
            self.flanneld.start()
            self.flanneld.sync(manager.leases()[0])

    def again(self) -> Flanneld:
        if self.netfilter:
            self.netfilter.close()
        self.netfilter = LinuxNetfilter()
        return Flanneld(self.settings, self.manager, self.kernel, self.netfilter, SystemClock())

    def sync(self) -> Plan:
        with inside(self.netns, self.home):
            return self.flanneld.sync(self.manager.leases()[0])

    def pod(self, name: str) -> tuple[int, str]:
        fd = new_netns()
        with inside(self.netns, self.home):
            return fd, str(self.network.add(name, fd).ip)


class Cluster:
    """The wire with everything on it."""

    def __init__(self, backend: str, where: Path) -> None:
        self.manager = Manager(MemoryStore())
        self.manager.publish(f'{{"Network": "10.244.0.0/16", "Backend": {backend}}}')
        self.hosts = {name: new_netns() for name in ADDRESSES}
        self.home = own_netns()
        underlay.wire(
            {
                "gateway": "192.168.50.1/24",
                "hosts": [
                    {"name": n, "netns": f"/proc/self/fd/{fd}", "address": ADDRESSES[n]}
                    for n, fd in self.hosts.items()
                ],
            }
        )
        self.nodes = [
            Node(name, self.hosts[name], self.home, self.manager, where)
            for name in ("node1", "node2")
        ]
        self.nodes[0].sync()

    def run(self, host: str, *argv: str) -> str:
        return in_netns(self.hosts[host], *argv)


@pytest.fixture(params=[VXLAN, DIRECT, HOST_GW], ids=["vxlan", "direct", "host-gw"])
def cluster(request: pytest.FixtureRequest, own_netns: None, tmp_path: Path) -> Cluster:
    return Cluster(request.param, tmp_path)


@pytest.fixture
def vxlan(own_netns: None, tmp_path: Path) -> Cluster:
    return Cluster(VXLAN, tmp_path)


def test_pods_on_different_nodes_reach_each_other_with_full_packets(cluster: Cluster) -> None:
    one, two = (node.pod(f"{node.name}/0") for node in cluster.nodes)

    shown = in_netns(one[0], "ip", "link", "show", "eth0")
    payload = int(shown.split(" mtu ")[1].split()[0]) - 28
    fits = ("ping", "-c1", "-W2", "-M", "do", "-s", str(payload))
    assert "1 received" in in_netns(one[0], *fits, two[1])
    assert "1 received" in in_netns(two[0], *fits, one[1])


def test_a_node_reaches_pods_elsewhere(cluster: Cluster) -> None:
    _, address = cluster.nodes[1].pod("web/0")

    assert "1 received" in cluster.run("node1", "ping", "-c1", "-W2", address)


def test_a_second_sync_and_a_restart_touch_nothing(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    assert node.sync() == ()

    with inside(node.netns, node.home):
        node.flanneld = node.again()
        node.flanneld.start()

    assert node.sync() == ()


def test_pods_keep_their_address_between_pods_and_lose_it_towards_the_outside(
    vxlan: Cluster,
) -> None:
    one, two = (node.pod(f"{node.name}/0") for node in vxlan.nodes)

    assert _seen_by(two[0], one[0], two[1]) == one[1]
    assert _seen_by(vxlan.hosts["client"], one[0], ADDRESSES["client"]) == ADDRESSES["node1"]


def test_the_tunnels_entries_are_what_ip_and_bridge_show(vxlan: Cluster) -> None:
    mac = next(x.vtep_mac for x in vxlan.manager.leases()[0] if str(x.public_ip).endswith(".12"))

    routes = vxlan.run("node1", "ip", "route")
    assert "10.244.2.0/24 via 10.244.2.0 dev flannel.1 proto 76 onlink" in routes
    neighbours = vxlan.run("node1", "ip", "neigh", "show", "dev", "flannel.1")
    assert f"10.244.2.0 lladdr {mac} PERMANENT" in neighbours
    entries = vxlan.run("node1", "bridge", "fdb", "show", "dev", "flannel.1")
    assert f"{mac} dst 192.168.50.12 self permanent" in entries
    shown = vxlan.run("node1", "ip", "-d", "link", "show", "flannel.1")
    for part in ("mtu 1450", "vxlan id 1 local 192.168.50.11 dev eth0", "8472", "nolearning"):
        assert part in shown


def test_a_route_deleted_by_hand_comes_back_alone(vxlan: Cluster) -> None:
    vxlan.run("node1", "ip", "route", "del", "10.244.2.0/24")

    plan = vxlan.nodes[0].sync()

    assert [type(op).__name__ for op in plan] == ["AddRoute"]


def test_chains_deleted_by_hand_come_back(vxlan: Cluster) -> None:
    vxlan.run("node1", "iptables", "-t", "nat", "-F", "FLANNEL-POSTRTG")

    vxlan.nodes[0].sync()

    assert "--random-fully" in vxlan.run("node1", "iptables-save", "-t", "nat")


def test_pods_are_forwarded_where_the_policy_is_drop(vxlan: Cluster) -> None:
    """Docker since 1.13 sets it; flannel pull request 872."""
    one, two = (node.pod(f"{node.name}/0") for node in vxlan.nodes)
    for node in ("node1", "node2"):
        vxlan.run(node, "iptables", "-P", "FORWARD", "DROP")

    assert "1 received" in in_netns(one[0], "ping", "-c1", "-W2", two[1])


def _seen_by(server: int, client: int, address: str) -> str:
    """Return the source address that a UDP datagram from ``client`` arrives with."""
    with inside(server, home := own_netns()):
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with inside(client, home):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    os.close(home)
    with listener, sender:
        listener.bind(("0.0.0.0", 9999))
        listener.settimeout(5)
        sender.sendto(b"who am I", (address, 9999))
        return str(listener.recvfrom(64)[1][0])
