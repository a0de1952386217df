"""When a lab is up, and what is said when it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from labnet.lab.readiness import Cluster, Door, doors, explanation, missing

Object = dict[str, Any]


def node(name: str, ready: str = "True", message: str = "") -> Object:
    condition = {"type": "Ready", "status": ready, "message": message}
    return {"metadata": {"name": name}, "status": {"conditions": [condition]}}


def pod(name: str, ready: bool = True, **status: Any) -> Object:
    condition = {"type": "Ready", "status": str(ready)}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"run": "web"}},
        "spec": {"nodeName": "node1"},
        "status": {"phase": "Running", "conditions": [condition], **status},
    }


def deployment(ready: int, wanted: int = 2, seen: int = 1) -> Object:
    status = {"observedGeneration": seen, "readyReplicas": ready, "updatedReplicas": ready}
    return {
        "metadata": {"name": "web", "namespace": "default", "generation": 1},
        "spec": {"replicas": wanted},
        "status": status,
    }


def service(**spec: Any) -> Object:
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "clusterIP": "10.11.0.1",
            "selector": {"run": "web"},
            "ports": [{"port": 80}],
            **spec,
        },
    }


def endpoints(*addresses: str, ready: bool = True) -> Object:
    labels = {"kubernetes.io/service-name": "web"}
    return {
        "metadata": {"name": "web-x", "namespace": "default", "labels": labels},
        "endpoints": [{"addresses": [a], "conditions": {"ready": ready}} for a in addresses],
    }


UP = Cluster(
    nodes=[node("node1")],
    deployments=[deployment(ready=2)],
    pods=[pod("web-1"), pod("web-2")],
    services=[service()],
    slices=[endpoints("10.244.1.2", "10.244.1.3")],
)


def whys(cluster: Cluster) -> list[tuple[str, str]]:
    return [(one.what, one.why) for one in missing(cluster, ["node1"])]


def test_everything_ready_means_nothing_is_missing() -> None:
    assert missing(UP, ["node1"]) == ()


def test_a_node_that_never_came_and_one_that_is_not_ready_are_told_apart() -> None:
    cluster = replace(UP, nodes=[node("node2", "False", "no network yet")])

    found = missing(cluster, ["node1", "node2"])

    assert [(one.what, one.why, one.log) for one in found] == [
        ("node node1", "has not registered", "kubelet@node1"),
        ("node node2", "no network yet", "kubelet@node2"),
    ]


def test_a_deployment_waits_for_its_replicas() -> None:
    assert whys(replace(UP, deployments=[deployment(ready=1)])) == [
        ("deployment default/web", "1 of 2 replicas are ready")
    ]


def test_a_deployment_that_no_controller_has_looked_at_is_not_ready() -> None:
    assert whys(replace(UP, deployments=[deployment(ready=2, seen=0)]))


def test_a_pod_says_what_its_container_waits_for() -> None:
    waiting = {"reason": "ErrImagePull", "message": "no image nginx:9"}
    status = [{"name": "web", "state": {"waiting": waiting}}]

    found = whys(replace(UP, pods=[*UP.pods, pod("web-3", False, containerStatuses=status)]))

    assert found == [("pod default/web-3", "container web: ErrImagePull: no image nginx:9")]


def test_a_pod_without_a_node_points_at_the_scheduler() -> None:
    lost = pod("web-3", False)
    del lost["spec"]["nodeName"]

    (found,) = missing(replace(UP, pods=[*UP.pods, lost]), ["node1"])

    assert found.log == "kube-scheduler"


def test_a_pod_that_has_done_its_work_is_not_waited_for() -> None:
    assert whys(replace(UP, pods=[*UP.pods, pod("job", False, phase="Succeeded")])) == []


def test_a_service_waits_until_all_its_ready_pods_are_endpoints() -> None:
    assert whys(replace(UP, slices=[endpoints("10.244.1.2")])) == [
        ("service default/web", "not all of its 2 ready pods are endpoints yet")
    ]


def test_a_service_that_selects_nothing_is_not_waited_for() -> None:
    assert whys(replace(UP, services=[service(selector={"run": "other"})], slices=[])) == []


def test_doors_are_the_tcp_ports_of_services_with_endpoints() -> None:
    ports = [{"port": 80}, {"port": 53, "protocol": "UDP"}]

    assert doors(replace(UP, services=[service(ports=ports)])) == (
        Door("default/web", "10.11.0.1", 80),
    )


def test_headless_and_empty_services_have_no_door() -> None:
    assert doors(replace(UP, services=[service(clusterIP="None")])) == ()
    assert doors(replace(UP, slices=[endpoints("10.244.1.2", ready=False)])) == ()


def test_the_explanation_gives_reason_last_warning_and_log() -> None:
    found = missing(replace(UP, pods=[pod("web-1"), pod("web-2", False)]), ["node1"])
    events = [
        {
            "type": "Warning",
            "reason": "FailedMount",
            "message": "no such volume",
            "lastTimestamp": "2026-01-01T00:00:01Z",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-2"},
        }
    ]

    assert explanation(found, events).splitlines() == [
        "pod default/web-2: Running",
        "    last event: FailedMount: no such volume",
        "    more in: labnet logs kubelet@node1",
    ]
