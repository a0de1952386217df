"""The picture of a running lab, from processes and objects."""

from __future__ import annotations

from typing import Any

from labnet.lab.readiness import Cluster
from labnet.lab.state import Host, LabInfo
from labnet.lab.status import Component, Node, Pod, Service, picture
from labnet.sandbox.spec import Exit, Process

INFO = LabInfo(
    name="demo",
    title="A demo",
    started="2026-01-01T00:00:00Z",
    pid=1,
    api="https://127.0.0.1:1",
    api_port=1,
    hosts=(
        Host("node1", "192.168.50.11", "worker"),
        Host("node2", "192.168.50.12", "worker"),
        Host("client", "192.168.50.100", "client"),
    ),
    components=("etcd",),
)
PROCESSES = (
    Process("etcd", "component", "control-plane", 7, "2026-01-01T00:00:00Z"),
    Process(
        "kube-proxy@node1",
        "component",
        "node1",
        9,
        "2026-01-01T00:00:00Z",
        exit=Exit(137, 9, "2026-01-01T00:00:01Z"),
        restarts=2,
    ),
)


def pod(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web-1", "namespace": "default"},
        "spec": {"nodeName": "node1", "containers": [{"name": "web"}]},
        "status": status,
    }


def test_hosts_show_subnet_and_readiness_and_clients_neither() -> None:
    ready = {"type": "Ready", "status": "False"}
    cluster = Cluster(nodes=[{"metadata": {"name": "node1"}, "status": {"conditions": [ready]}}])

    found = picture(INFO, (), {"node1": "10.244.2.0/24"}, cluster)

    assert found.nodes == (
        Node("node1", "worker", "192.168.50.11", "10.244.2.0/24", "NotReady"),
        Node("node2", "worker", "192.168.50.12", "-", "absent"),
        Node("client", "client", "192.168.50.100", "-", "-"),
    )


def test_a_component_that_is_down_has_no_pid_but_says_how_it_ended() -> None:
    assert picture(INFO, PROCESSES, {}, Cluster()).components == (
        Component("etcd", "control-plane", "running", 7, 0),
        Component("kube-proxy@node1", "node1", "ended with 137", 0, 2),
    )


def test_without_the_api_server_nodes_are_unknown_and_the_reason_is_kept() -> None:
    found = picture(INFO, PROCESSES, {}, Cluster(), "the API server does not answer")

    assert [node.ready for node in found.nodes] == ["unknown", "unknown", "-"]
    assert found.trouble == "the API server does not answer"


def test_a_pod_shows_the_reason_its_container_waits_for() -> None:
    waiting = {"name": "web", "ready": False, "state": {"waiting": {"reason": "ErrImagePull"}}}
    cluster = Cluster(pods=[pod(phase="Pending", containerStatuses=[waiting])])

    assert picture(INFO, (), {}, cluster).pods == (
        Pod("default", "web-1", "0/1", "ErrImagePull", 0, "-", "node1"),
    )


def test_a_pod_being_deleted_is_terminating() -> None:
    ending = pod(phase="Running", podIP="10.244.2.3")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert picture(INFO, (), {}, Cluster(pods=[ending])).pods[0].status == "Terminating"


def test_a_service_counts_its_ready_endpoints() -> None:
    ports = [{"port": 80, "nodePort": 30001, "protocol": "TCP"}]
    service = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"type": "NodePort", "clusterIP": "10.11.0.1", "ports": ports},
    }
    slices = [
        {
            "metadata": {
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "web"},
            },
            "endpoints": [
                {"addresses": ["10.244.1.2"], "conditions": {"ready": True}},
                {"addresses": ["10.244.1.3"], "conditions": {"ready": False}},
            ],
        }
    ]

    found = picture(INFO, (), {}, Cluster(services=[service], slices=slices))

    assert found.services == (
        Service("default", "web", "NodePort", "10.11.0.1", "80:30001/TCP", 1),
    )
