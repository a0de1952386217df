"""The kubelet's pod network over the fake kernel."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from labnet.errors import AlreadyExists, OpFailed, Unavailable
from labnet.kernel.fake import FakeKernel
from labnet.node.network import BridgeNetwork
from labnet.plan.ops import AddLink, Attach, DeleteLink
from labnet.plan.state import Scope
from labnet.subnet import file
from labnet.subnet.file import SubnetEnv

ENV = SubnetEnv(IPv4Network("10.244.0.0/16"), IPv4Network("10.244.1.0/24"), 1450)
PINNED = IPv4Address("10.244.1.10")


@pytest.fixture
def kernel() -> FakeKernel:
    return FakeKernel()


@pytest.fixture
def network(kernel: FakeKernel, tmp_path: Path) -> BridgeNetwork:
    file.write(tmp_path / "subnet.env", ENV)
    return again(kernel, tmp_path)


def again(kernel: FakeKernel, tmp_path: Path) -> BridgeNetwork:
    """A network over the same files, as a restarted kubelet makes it."""
    return BridgeNetwork(
        kernel, tmp_path / "subnet.env", tmp_path / "cni", reserved=frozenset({PINNED})
    )


def test_waits_for_flanneld(kernel: FakeKernel, tmp_path: Path) -> None:
    network = again(kernel, tmp_path)

    assert not network.ready()
    with pytest.raises(Unavailable, match=r"subnet\.env is missing"):
        network.add("a/0", 7)
    assert not kernel.log


def test_the_first_pod_brings_the_bridge(network: BridgeNetwork, kernel: FakeKernel) -> None:
    assert network.ready()

    made = network.add("a/0", 7)
    network.add("b/0", 8)

    assert (str(made.ip), str(made.gateway), made.prefix_length) == ("10.244.1.2", "10.244.1.1", 24)
    assert made.interface == "eth0"
    assert [type(op).__name__ for op in kernel.log] == ["AddLink", "AddAddress", "Attach", "Attach"]
    assert kernel.cables[7].port == made.host_interface


def test_adding_again_changes_nothing(network: BridgeNetwork, kernel: FakeKernel) -> None:
    made = network.add("a/0", 7)
    done = list(kernel.log)

    assert network.add("a/0", 7) == made
    assert kernel.log == done


def test_a_restarted_kubelet_finds_its_pods(
    network: BridgeNetwork, kernel: FakeKernel, tmp_path: Path
) -> None:
    made = {name: network.add(name, n) for n, name in enumerate(("a/0", "b/0"))}

    later = again(kernel, tmp_path)

    assert later.list() == made
    assert later.check("b/0") == made["b/0"]
    assert later.check("c/0") is None
    assert later.add("c/0", 9).ip == IPv4Address("10.244.1.4")


def test_deleting_frees_the_address_and_stops_the_port(
    network: BridgeNetwork, kernel: FakeKernel
) -> None:
    made = network.add("a/0", 7, PINNED)

    network.delete("a/0")
    network.delete("a/0")

    port = kernel.observe(Scope(links=frozenset({made.host_interface}))).links
    assert [link.up for link in port] == [False]
    assert network.list() == {}
    assert network.add("a/1", 8, PINNED).mac == made.mac


def test_deleting_a_pod_whose_namespace_is_gone_is_fine(
    network: BridgeNetwork, kernel: FakeKernel
) -> None:
    made = network.add("a/0", 7)
    kernel.apply(DeleteLink(made.host_interface, "its namespace ended"))

    network.delete("a/0")

    assert network.list() == {}


def test_a_failed_pod_leaves_nothing_behind(
    network: BridgeNetwork, kernel: FakeKernel, tmp_path: Path
) -> None:
    network.add("a/0", 7)

    with pytest.raises(OpFailed, match="File exists"):
        network.add("b/0", 7)  # this namespace has an eth0 already

    assert list(network.list()) == ["a/0"]
    assert not (tmp_path / "cni/networks/cbr0/10.244.1.3").exists()


def test_two_pods_cannot_have_one_address(network: BridgeNetwork) -> None:
    network.add("a/0", 7, PINNED)

    with pytest.raises(AlreadyExists, match="held by pod sandbox a-0"):
        network.add("b/0", 8, PINNED)


def test_the_bridge_comes_back_when_somebody_removed_it(
    network: BridgeNetwork, kernel: FakeKernel
) -> None:
    network.add("a/0", 7)
    kernel.apply(DeleteLink("cni0", "by hand"))

    network.add("b/0", 8)

    assert [type(op) for op in kernel.log].count(AddLink) == 2
    assert isinstance(kernel.log[-1], Attach)


def test_the_configuration_is_where_cni_looks_for_it(
    network: BridgeNetwork, tmp_path: Path
) -> None:
    network.add("a/0", 7)

    assert '"cbr0"' in (tmp_path / "cni/net.d/10-flannel.conflist").read_text()
