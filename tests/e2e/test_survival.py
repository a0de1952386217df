"""What a lab survives: dead pods, dead components, a dead store, a dead PID 1."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lab import ROOT, Lab, running, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

VIRTUAL_IP = "10.11.97.177"
PROBED = (Path(__file__).parent / "probed.yaml").read_text


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A lab for one test alone: these tests leave it changed."""
    name = f"e2e-{os.getpid()}-{abs(hash(request.node.name)) % 10000}"
    with running(ROOT / "scenarios/my-nginx.yaml", name) as lab:
        yield lab


def test_a_pod_that_is_not_ready_leaves_the_endpoints_and_the_rules(lab: Lab) -> None:
    lab.kubectl("apply", "-f", "-", stdin=PROBED())
    lab.kubectl("rollout", "status", "deployment/probed", "--timeout=60s")
    wait_until("two endpoints", lambda: len(_addresses(lab, "probed")) == 2)
    pod = lab.pods("app=probed")[0]
    address = pod["status"]["podIP"]

    lab.exec(f"pod/{pod['metadata']['name']}", "rm", "/tmp/ready")

    wait_until("the pod leaves the Endpoints", lambda: address not in _addresses(lab, "probed"))
    wait_until("the pod leaves the rules", lambda: not _mentions(lab, "node1", address))
    lab.exec(f"pod/{pod['metadata']['name']}", "touch", "/tmp/ready")
    wait_until("the pod comes back", lambda: _mentions(lab, "node1", address))


def _addresses(lab: Lab, service: str) -> list[str]:
    subsets = lab.get("endpoints", service).get("subsets") or []
    return [a["ip"] for subset in subsets for a in subset.get("addresses", [])]


def _mentions(lab: Lab, node: str, address: str) -> bool:
    return any(f"{address}:" in line for line in lab.nat(node))


def test_a_killed_pod_is_replaced_and_the_service_goes_on(lab: Lab) -> None:
    before = {pod["metadata"]["name"] for pod in lab.pods("run=my-nginx")}

    lab.kubectl("delete", "pod", min(before), "--wait=false")

    def replaced() -> bool:
        now = lab.pods("run=my-nginx")
        names = {pod["metadata"]["name"] for pod in now}
        return len(names) == 2 and names != before and all(map(_ready, now))

    wait_until("a new pod is Ready", replaced)
    assert "my-nginx-" in lab.curl("node1", f"http://{VIRTUAL_IP}")


def _ready(pod: dict[str, dict[str, list[dict[str, str]]]]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def test_traffic_goes_on_while_kube_proxy_is_dead(lab: Lab) -> None:
    rules = lab.nat("node1")
    pid = _component(lab, "kube-proxy@node1")["pid"]

    lab.exec("node1", "kill", "-9", str(pid))

    assert "my-nginx-" in lab.curl("node1", f"http://{VIRTUAL_IP}")
    wait_until(
        "kube-proxy is back", lambda: _component(lab, "kube-proxy@node1")["pid"] not in (0, pid)
    )
    assert [r for r in lab.nat("node1") if r.startswith("-A")] == [
        r for r in rules if r.startswith("-A")
    ]


def _component(lab: Lab, name: str) -> dict[str, int]:
    status = json.loads(lab.labnet("status", "-o", "json").stdout)
    return next(one for one in status["components"] if one["name"] == name)


def test_etcd_killed_and_back_loses_nothing(lab: Lab) -> None:
    lab.kubectl("create", "configmap", "before", "--from-literal=a=b")
    pid = _component(lab, "etcd")["pid"]

    lab.exec("control-plane", "kill", "-9", str(pid))

    wait_until("etcd is back", lambda: _component(lab, "etcd")["pid"] not in (0, pid))
    wait_until(
        "the API answers",
        lambda: "before" in lab.kubectl("get", "configmap", "before", check=False),
    )
    lab.kubectl("scale", "deployment/my-nginx", "--replicas=3")
    lab.kubectl("rollout", "status", "deployment/my-nginx", "--timeout=60s")
    lab.kubectl("scale", "deployment/my-nginx", "--replicas=2")


def test_pods_survive_their_kubelet(lab: Lab) -> None:
    before = _running(lab)
    pid = _component(lab, "kubelet@node2")["pid"]

    lab.exec("node2", "kill", "-9", str(pid))

    wait_until(
        "the kubelet is back", lambda: _component(lab, "kubelet@node2")["pid"] not in (0, pid)
    )
    wait_until("node2 is Ready", lambda: " Ready" in lab.kubectl("get", "node", "node2"))
    assert _running(lab) == before


def _running(lab: Lab) -> set[tuple[str, str]]:
    """Return (pod, container id) of all pods: a restarted container has a new id."""
    return {
        (pod["metadata"]["name"], status["containerID"])
        for pod in lab.get("pods", "-A")["items"]
        for status in pod["status"].get("containerStatuses", [])
    }


def test_a_node_whose_link_is_cut_leaves_and_comes_back() -> None:
    hasty = ["--set", "spec.controlPlane.nodeMonitorGrace=4"]
    hasty += ["--set", "spec.controlPlane.nodeLease=4"]
    with running(ROOT / "scenarios/my-nginx.yaml", f"e2e-{os.getpid()}-cut", *hasty) as lab:
        lab.exec("node2", "ip", "link", "set", "eth0", "down")

        wait_until("node2 is NotReady", lambda: _ready_of(lab, "node2") == "Unknown")
        wait_until("its pod is no endpoint", lambda: _addresses(lab, "my-nginx") == ["10.244.2.10"])
        wait_until("it left the rules", lambda: not _mentions(lab, "node1", "10.244.1.10"))
        assert "my-nginx-" in lab.curl("node1", f"http://{VIRTUAL_IP}")

        # The kernel drops the routes of a link that goes down; a host's network setup
        # brings the default route back with it.
        lab.exec("node2", "ip", "link", "set", "eth0", "up")
        lab.exec("node2", "ip", "route", "replace", "default", "via", "192.168.50.1")

        wait_until("node2 is Ready", lambda: _ready_of(lab, "node2") == "True")
        wait_until("its pod is back", lambda: len(_addresses(lab, "my-nginx")) == 2)
        wait_until("so are its rules", lambda: _mentions(lab, "node1", "10.244.1.10"))


def _ready_of(lab: Lab, node: str) -> str:
    conditions = lab.get("node", node)["status"]["conditions"]
    return next(str(c["status"]) for c in conditions if c["type"] == "Ready")
