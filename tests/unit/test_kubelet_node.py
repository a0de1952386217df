"""How a node registers, reports and stays alive."""

from __future__ import annotations

from pathlib import Path

import pytest

from labnet.client.fake import Call
from labnet.client.kinds import LEASES, NODE_LEASES, NODES
from labnet.errors import Unavailable
from tests.unit.kubelet_rig import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def ready(node: Node) -> dict[str, str]:
    conditions = node.api.get(NODES, "node1")["status"]["conditions"]
    return next(c for c in conditions if c["type"] == "Ready")


def renewals(node: Node) -> int:
    return sum(w.resource == "leases" for w in node.api.writes)


def test_a_node_registers_with_address_capacity_and_a_lease(node: Node) -> None:
    assert node.kubelet.node.step() == pytest.approx(10.0)
    found = node.api.get(NODES, "node1")
    assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "node1"
    assert {"type": "InternalIP", "address": "192.168.50.11"} in found["status"]["addresses"]
    assert found["status"]["capacity"]["cpu"] == "2"
    assert found["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.37.")
    assert found["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    assert ready(node)["status"] == "True"
    lease = node.api.get(LEASES, "node1", NODE_LEASES)["spec"]
    assert (lease["holderIdentity"], lease["leaseDurationSeconds"]) == ("node1", 40)


def test_a_node_without_a_subnet_is_not_ready_and_says_why(tmp_path: Path) -> None:
    node = Node(tmp_path, network_ready=False)
    assert node.kubelet.node.step() <= 0.05
    assert ready(node)["reason"] == "KubeletNotReady"
    assert "flanneld" in ready(node)["message"]
    node.write_subnet()
    node.kubelet.node.step()
    assert ready(node)["status"] == "True"


def test_the_lease_is_renewed_every_ten_seconds_and_the_node_is_left_alone(node: Node) -> None:
    node.kubelet.node.step()
    writes = len(node.api.writes)
    for _ in range(6):
        node.clock.advance(10)
        node.kubelet.node.step()
    assert renewals(node) == 7
    assert len(node.api.writes) == writes + 6


def test_second_step_does_nothing(node: Node) -> None:
    node.kubelet.node.step()
    writes = len(node.api.writes)
    node.kubelet.node.step()
    assert len(node.api.writes) == writes


def test_an_api_server_that_is_not_there_yet_is_asked_again(node: Node) -> None:
    def unavailable(_call: Call) -> None:
        raise Unavailable("connection refused")

    node.api.before_write = unavailable
    assert node.kubelet.node.step() == pytest.approx(0.1)
    node.clock.advance(0.1)
    assert node.kubelet.node.step() == pytest.approx(0.2)
    node.api.before_write = lambda _call: None
    node.clock.advance(0.2)
    node.kubelet.node.step()
    assert ready(node)["status"] == "True"


def test_a_restarted_kubelet_takes_its_node_over(node: Node) -> None:
    node.kubelet.node.step()
    uid = node.api.get(NODES, "node1")["metadata"]["uid"]
    node.restart_kubelet()
    node.clock.advance(5)
    node.kubelet.node.step()
    assert node.api.get(NODES, "node1")["metadata"]["uid"] == uid
    assert ready(node)["lastTransitionTime"] == "2026-01-01T00:00:00Z"


def test_a_deleted_node_and_a_deleted_lease_come_back(node: Node) -> None:
    node.kubelet.node.step()
    node.api.delete(NODES, "node1")
    node.api.delete(LEASES, "node1", NODE_LEASES)
    for _ in range(40):
        node.clock.advance(10)
        node.kubelet.node.step()
    assert ready(node)["status"] == "True"
    assert node.api.get(LEASES, "node1", NODE_LEASES)["spec"]["holderIdentity"] == "node1"


def test_a_node_that_was_given_up_says_that_it_is_back(node: Node) -> None:
    node.kubelet.node.step()
    given_up = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    node.api.patch(NODES, "node1", "", {"status": {"conditions": [given_up]}}, subresource="status")
    node.clock.advance(10)

    node.kubelet.node.step()

    assert ready(node)["status"] == "True"
