"""Pods on a real bridge: they reach each other, themselves, and the node."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from labnet.errors import OpFailed
from labnet.kernel.linux import LinuxKernel
from labnet.node.network import BridgeNetwork
from labnet.subnet import file
from labnet.subnet.file import SubnetEnv
from tests.conditions import eventually
from tests.own_netns import in_netns, new_netns

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("own_netns")]
ENV = SubnetEnv(IPv4Network("10.244.0.0/16"), IPv4Network("10.244.1.0/24"), 1450)


@pytest.fixture
def network(own_netns: None, tmp_path: Path) -> Iterator[BridgeNetwork]:
    file.write(tmp_path / "subnet.env", ENV)
    with LinuxKernel("node1") as kernel:
        yield BridgeNetwork(kernel, tmp_path / "subnet.env", tmp_path / "cni")


@pytest.fixture
def pods(own_netns: None) -> Iterator[list[int]]:
    made = [new_netns() for _ in range(3)]
    yield made
    for fd in made:
        os.close(fd)


def ip(*argv: str) -> str:
    return subprocess.run(["ip", *argv], capture_output=True, text=True, check=True).stdout


def test_pods_reach_each_other_the_node_and_themselves(
    network: BridgeNetwork, pods: list[int]
) -> None:
    addresses = [network.add(f"pod{n}/0", fd).ip for n, fd in enumerate(pods)]

    for fd in pods:
        for address in (*addresses, IPv4Address("10.244.1.1"), IPv4Address("127.0.0.1")):
            assert "1 received" in in_netns(fd, "ping", "-c1", "-W2", str(address))


def test_a_pod_sees_eth0_with_its_address_mtu_and_default_route(
    network: BridgeNetwork, pods: list[int]
) -> None:
    made = network.add("web/0", pods[0])

    seen = in_netns(pods[0], "ip", "addr", "show", "eth0")
    assert f"link/ether {made.mac}" in seen
    assert "inet 10.244.1.2/24 brd 10.244.1.255" in seen
    assert "mtu 1450" in seen
    assert "inet6" not in seen
    assert "default via 10.244.1.1 dev eth0" in in_netns(pods[0], "ip", "route")


def test_the_nodes_end_is_a_hairpin_port_of_cni0(network: BridgeNetwork, pods: list[int]) -> None:
    made = network.add("web/0", pods[0])

    seen = ip("-d", "link", "show", made.host_interface)
    assert "master cni0" in seen
    assert "hairpin on" in seen
    assert "inet 10.244.1.1/24 brd 10.244.1.255" in ip("addr", "show", "cni0")


def test_a_deleted_pod_is_off_the_network_at_once(network: BridgeNetwork, pods: list[int]) -> None:
    network.add("a/0", pods[0])
    gone = network.add("b/0", pods[1])

    network.delete("b/0")

    assert "1 received" not in in_netns(pods[0], "ping", "-c1", "-W1", str(gone.ip))


def test_a_new_pod_with_the_old_ones_address_is_reached_at_once(
    network: BridgeNetwork, pods: list[int]
) -> None:
    pinned = IPv4Address("10.244.1.10")
    network.add("a/0", pods[0])
    network.add("b/0", pods[1], pinned)
    assert "1 received" in in_netns(pods[0], "ping", "-c1", "-W2", str(pinned))

    network.delete("b/0")
    network.add("b/1", pods[2], pinned)

    assert "1 received" in in_netns(pods[0], "ping", "-c1", "-W2", str(pinned))


def test_the_nodes_end_goes_with_the_pods_namespace(
    network: BridgeNetwork, pods: list[int]
) -> None:
    fd = new_netns()
    made = network.add("a/0", fd)
    network.delete("a/0")

    os.close(fd)

    eventually(lambda: made.host_interface not in ip("link"))


def test_a_namespace_that_has_an_eth0_already_is_refused_and_nothing_is_left(
    network: BridgeNetwork, pods: list[int]
) -> None:
    network.add("a/0", pods[0])
    before = ip("link")

    with pytest.raises(OpFailed, match=r"node1: ip link add veth\w+ .*File exists"):
        network.add("b/0", pods[0])

    assert ip("link") == before
    assert list(network.list()) == ["a/0"]


def test_many_pods_at_once_from_many_threads(network: BridgeNetwork) -> None:
    fds = [new_netns() for _ in range(20)]
    threads = [
        threading.Thread(target=network.add, args=(f"pod{n}/0", fd)) for n, fd in enumerate(fds)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    attached = network.list()
    assert len({pod.ip for pod in attached.values()}) == 20
    for fd in fds:
        assert "1 received" in in_netns(fd, "ping", "-c1", "-W2", "10.244.1.1")
        os.close(fd)
