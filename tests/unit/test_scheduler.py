"""Where pods go, and what is said about those that go nowhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from labnet.client.fake import Call, FakeApi
from labnet.client.kinds import EVENTS, NODES, PODS, REPLICA_SETS
from labnet.client.views import condition
from labnet.errors import Unavailable
from labnet.naming import POD_IP_ANNOTATION
from labnet.scheduler.decide import Snapshot, decide
from labnet.scheduler.pins import Pins
from labnet.scheduler.run import Scheduler
from tests.conditions import eventually

Object = dict[str, Any]
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


def node(
    name: str, *, ready: bool = True, labels: dict[str, str] | None = None, **spec: Any
) -> Object:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"conditions": conditions, "allocatable": {"pods": "110"}},
    }


def pod(name: str, *, owner: str = "", on: str = "", at: int = 0, **spec: Any) -> Object:
    metadata: Object = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": f"2026-01-01T00:00:{at:02}Z",
    }
    if owner:
        reference = {"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    placed = {"nodeName": on} if on else {}
    return {"metadata": metadata, "spec": {**placed, **spec}, "status": {"phase": "Pending"}}


def places(nodes: list[Object], pods: list[Object], pins: Pins | None = None) -> dict[str, str]:
    """Return each decided pod's node, or why it has none; a pinned address after ``@``."""
    owners = {"web-1": {"metadata": {"uid": "web-1", "ownerReferences": [_deployment("web")]}}}
    found = decide(Snapshot(tuple(nodes), tuple(pods), owners, pins or Pins()))
    return {
        d.pod["metadata"]["name"]: (d.node or d.why)
        + (f"@{d.annotations[POD_IP_ANNOTATION]}" if d.annotations else "")
        for d in found
    }


def _deployment(name: str) -> Object:
    return {"kind": "Deployment", "name": name, "uid": name, "controller": True}


TWO = [node("node1"), node("node2")]


def test_pods_of_one_owner_spread_over_the_nodes() -> None:
    pods = [pod(f"p{i}", owner="web-1", at=i) for i in range(4)]
    assert list(places(TWO, pods).values()) == ["node1", "node2", "node1", "node2"]


def test_pods_that_are_placed_count() -> None:
    pods = [pod("a", owner="web-1", on="node1"), pod("b", on="node2"), pod("c", owner="web-1")]
    assert places(TWO, pods) == {"c": "node2"}


def test_without_siblings_the_emptier_node_wins() -> None:
    assert places(TWO, [pod("a", on="node1"), pod("b")]) == {"b": "node2"}


def test_only_pods_that_wait_for_this_scheduler_are_decided() -> None:
    dying = pod("a")
    dying["metadata"]["deletionTimestamp"] = "x"
    others = [pod("b", on="node1"), pod("c", schedulerName="mine"), pod("d", schedulingGates=[{}])]
    assert places(TWO, [dying, *others]) == {}


@pytest.mark.parametrize(
    ("refusing", "wanting", "reason"),
    [
        (
            node("n", taints=[CONTROL_PLANE]),
            {},
            "node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }",
        ),
        (node("n", unschedulable=True), {}, "node(s) were unschedulable"),
        (
            node("n", ready=False),
            {},
            "node(s) had untolerated taint {node.kubernetes.io/not-ready: }",
        ),
        (
            node("n", labels={"disk": "hdd"}),
            {"nodeSelector": {"disk": "ssd"}},
            "node(s) didn't match Pod's node affinity/selector",
        ),
        (
            node("n"),
            {"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]},
            "node(s) didn't have free ports for the requested pod ports",
        ),
    ],
    ids=["taint", "cordon", "not ready", "selector", "host port"],
)
def test_a_node_is_refused_in_kubernetes_words(
    refusing: Object, wanting: Object, reason: str
) -> None:
    taken = pod("other", on="n", containers=[{"ports": [{"containerPort": 80, "hostPort": 80}]}])
    assert places([refusing], [taken, pod("p", **wanting)])["p"] == (
        f"0/1 nodes are available: 1 {reason}. preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling."
    )


def test_the_reasons_of_all_nodes_are_counted_together() -> None:
    nodes = [
        node("control-plane", taints=[CONTROL_PLANE]),
        node("node1", unschedulable=True),
        node("node2", unschedulable=True),
    ]
    assert places(nodes, [pod("p")])["p"].startswith(
        "0/3 nodes are available: 1 node(s) had untolerated taint "
        "{node-role.kubernetes.io/control-plane: }, 2 node(s) were unschedulable."
    )
    assert places([], [pod("p")]) == {"p": "no nodes available to schedule pods"}


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": CONTROL_PLANE["key"], "operator": "Exists"},
        {"key": CONTROL_PLANE["key"], "value": "", "effect": "NoSchedule"},
    ],
)
def test_a_tolerated_taint_does_not_matter(toleration: Object) -> None:
    tainted = node("control-plane", taints=[CONTROL_PLANE])
    assert places([tainted], [pod("p", tolerations=[toleration])]) == {"p": "control-plane"}


def test_required_node_affinity_is_any_of_its_terms() -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node9"]}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    nodes = [node("node1", labels={"zone": "a"}), node("node2", labels={"zone": "b"})]
    wanting = pod("p", affinity={"nodeAffinity": required})
    assert places(nodes, [wanting]) == {"p": "node2"}


def test_a_full_node_takes_no_more() -> None:
    full = node("node1")
    full["status"]["allocatable"]["pods"] = "1"
    assert places(
        [full, node("node2")],
        [pod("a", on="node1"), *(pod(f"x{i}", on="node2") for i in range(5)), pod("p")],
    ) == {"p": "node2"}


PINS = Pins(
    {"default/web": (IPv4Address("10.244.1.10"), IPv4Address("10.244.2.10"))},
    {"node1": IPv4Network("10.244.2.0/24"), "node2": IPv4Network("10.244.1.0/24")},
)


def test_pinned_pods_get_the_articles_addresses_on_the_nodes_that_hold_them() -> None:
    pods = [pod(f"p{i}", owner="web-1", at=i) for i in range(3)]
    assert places(TWO, pods, PINS) == {
        "p0": "node2@10.244.1.10",
        "p1": "node1@10.244.2.10",
        "p2": "node1",
    }


def test_a_pinned_address_is_free_again_when_its_pod_is_gone_not_when_it_is_going() -> None:
    holder = pod("old", owner="web-1", on="node2")
    holder["metadata"] |= {
        "annotations": {POD_IP_ANNOTATION: "10.244.1.10"},
        "deletionTimestamp": "x",
    }
    assert places(TWO, [holder, pod("new", owner="web-1")], PINS) == {"new": "node1@10.244.2.10"}
    holder["status"] = {"phase": "Failed", "podIP": "10.244.1.10"}
    assert places(TWO, [holder, pod("new", owner="web-1")], PINS) == {"new": "node2@10.244.1.10"}


def test_a_successor_waits_for_the_pinned_address_of_a_pod_that_is_going() -> None:
    going = [pod(f"old{i}", owner="web-1", on=f"node{i}") for i in (1, 2)]
    for holder, address in zip(going, ("10.244.2.10", "10.244.1.10"), strict=True):
        holder["metadata"] |= {
            "annotations": {POD_IP_ANNOTATION: address},
            "deletionTimestamp": "x",
        }
    new = [pod(f"new{i}", owner="web-1", at=i) for i in range(3)]
    assert places(TWO, [*going, *new], PINS) == {
        "new0": "pinned address 10.244.1.10 is still held by default/old2",
        "new1": "pinned address 10.244.2.10 is still held by default/old1",
        "new2": "node1",
    }


def test_a_pinned_node_that_refuses_leaves_the_next_address() -> None:
    nodes = [node("node1"), node("node2", unschedulable=True)]
    assert places(nodes, [pod("p", owner="web-1")], PINS) == {"p": "node1@10.244.2.10"}


def test_a_pod_whose_replica_set_is_not_known_yet_waits_where_there_are_pins() -> None:
    assert places(TWO, [pod("p", owner="unseen")], PINS) == {}
    assert places(TWO, [pod("p", owner="unseen")]) == {"p": "node1"}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """An API with a scheduler at work on it, with the articles' pins."""
    found = FakeApi()
    stop = threading.Event()
    thread = threading.Thread(target=Scheduler(found, PINS).run, args=(stop,))
    thread.start()
    yield found
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def bound_to(api: FakeApi, name: str) -> str:
    return str(api.get(PODS, name, "default")["spec"].get("nodeName", ""))


def test_a_pod_is_bound_with_its_pin_as_soon_as_its_node_is_ready(api: FakeApi) -> None:
    owned = {"name": "web-1", "namespace": "default", "ownerReferences": [_deployment("web")]}
    replica_set = api.create(REPLICA_SETS, {"metadata": owned, "spec": {}})
    waiting = pod("p", owner="web-1")
    waiting["metadata"]["ownerReferences"][0]["uid"] = replica_set["metadata"]["uid"]
    api.create(PODS, waiting)
    api.create(NODES, node("node2", ready=False))
    eventually(lambda: condition(api.get(PODS, "p", "default"), "PodScheduled") is not None)
    assert bound_to(api, "p") == ""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    api.patch(NODES, "node2", "", {"status": ready}, subresource="status")
    eventually(lambda: bound_to(api, "p") == "node2")
    assert api.get(PODS, "p", "default")["metadata"]["annotations"] == {
        POD_IP_ANNOTATION: "10.244.1.10"
    }


def test_an_unplaceable_pod_says_why_once(api: FakeApi) -> None:
    api.create(NODES, node("node1", unschedulable=True))

    def said(name: str) -> list[str]:
        found = api.list(EVENTS, fields=f"involvedObject.name={name}").items
        return [e["message"] for e in found if e["count"] == 1]

    api.create(PODS, pod("p"))
    eventually(lambda: any("1 node(s) were unschedulable" in m for m in said("p")))
    for number in range(3):
        api.create(PODS, pod(f"other{number}"))
        eventually(lambda: bool(said(f"other{number}")))  # noqa: B023
    assert len(said("p")) == len(set(said("p")))
    assert {e["reason"] for e in api.list(EVENTS).items} == {"FailedScheduling"}
    assert {e["type"] for e in api.list(EVENTS).items} == {"Warning"}


def test_a_binding_that_fails_is_tried_again(api: FakeApi) -> None:
    failures = iter([True, True, False])

    def fail(call: Call) -> None:
        if call.resource == "pods" and call.verb == "update" and next(failures, False):
            raise Unavailable("etcd is away")

    api.before_write = fail
    api.create(NODES, node("node1"))
    api.create(PODS, pod("p"))
    eventually(lambda: bound_to(api, "p") == "node1")
