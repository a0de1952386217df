"""Nodes that fall silent, and what happens to their pods."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from labnet.client.fake import FakeApi
from labnet.client.kinds import LEASES, NODE_LEASES, NODES, PODS
from labnet.clock import FakeClock, rfc3339, rfc3339_micro
from labnet.controllers import podgc, serviceaccount
from labnet.controllers.loop import Mirrors
from labnet.controllers.node_lifecycle import (
    NOT_READY,
    UNREACHABLE,
    NodeLifecycle,
    Snapshot,
    reconcile,
)
from labnet.controllers.writes import Outcome, Remove, Update
from tests.conditions import eventually

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
Object = dict[str, Any]


def node(ready: str = "True", *, taints: list[Object] | None = None, since: int = 60) -> Object:
    moment = rfc3339(NOW - timedelta(seconds=since))
    conditions = [
        {"type": "MemoryPressure", "status": "False"},
        {"type": "Ready", "status": ready, "lastTransitionTime": moment},
    ]
    return {
        "metadata": {"name": "node1", "uid": "n", "creationTimestamp": moment},
        "spec": {"taints": taints} if taints else {},
        "status": {"conditions": conditions},
    }


def pod(name: str = "a", **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"nodeName": "node1", **spec},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def taint(key: str, effect: str, age: float = 0) -> Object:
    return {"key": key, "effect": effect, "timeAdded": rfc3339(NOW - timedelta(seconds=age))}


def look(of: Object, *pods: Object, silent: bool = False) -> Outcome:
    return reconcile(Snapshot(of, pods, silent, NOW))


def keys(outcome: Outcome) -> list[tuple[str, str]]:
    [update] = [w for w in outcome.writes if isinstance(w, Update) and w.resource == NODES]
    return [(t["key"], t["effect"]) for t in update.object["spec"].get("taints", [])]


def test_a_node_that_speaks_is_left_alone() -> None:
    assert look(node(), pod()).writes == ()


def test_a_silent_node_is_unknown_and_its_pods_are_not_ready() -> None:
    outcome = look(node(), pod(), silent=True)
    of_pod, of_node = (w.object for w in outcome.writes if isinstance(w, Update))
    assert of_pod["status"]["conditions"][0]["status"] == "False"
    conditions = {c["type"]: c for c in of_node["status"]["conditions"]}
    assert conditions["Ready"]["status"] == "Unknown"
    assert conditions["Ready"]["reason"] == "NodeStatusUnknown"
    assert conditions["MemoryPressure"]["status"] == "Unknown"


def test_an_unknown_node_is_tainted_unreachable_and_then_left_alone() -> None:
    assert keys(look(node("Unknown"), silent=True)) == [
        (UNREACHABLE, "NoSchedule"),
        (UNREACHABLE, "NoExecute"),
    ]
    taints = [taint(UNREACHABLE, "NoSchedule"), taint(UNREACHABLE, "NoExecute")]
    assert look(node("Unknown", taints=taints), silent=True).writes == ()


def test_a_node_that_says_it_is_not_ready_is_tainted_when_it_lasts() -> None:
    settling = look(node("False", since=2))
    assert (settling.writes, settling.again) == ((), 3.0)
    assert keys(look(node("False"))) == [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]


def test_a_node_that_is_back_loses_our_taints_and_keeps_others() -> None:
    theirs = {"key": "dedicated", "effect": "NoSchedule"}
    back = node(taints=[theirs, taint(UNREACHABLE, "NoSchedule"), taint(UNREACHABLE, "NoExecute")])
    assert keys(look(back)) == [("dedicated", "NoSchedule")]


@pytest.mark.parametrize(
    ("tolerations", "stays"),
    [
        ([], 300.0),
        ([{"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": 5}], 5.0),
        ([{"operator": "Exists"}], None),
    ],
    ids=["five minutes by default", "as long as it says", "for ever"],
)
def test_a_pod_leaves_an_unreachable_node_when_its_toleration_ends(
    tolerations: list[Object], stays: float | None
) -> None:
    def outcome(age: float) -> Outcome:
        taints = [taint(UNREACHABLE, "NoSchedule", age), taint(UNREACHABLE, "NoExecute", age)]
        lost = node("Unknown", taints=taints)
        unready = pod(tolerations=tolerations)
        unready["status"]["conditions"][0]["status"] = "False"
        return look(lost, unready, silent=True)

    assert (outcome(0).writes, outcome(0).again) == ((), stays)
    gone = [w.uid for w in outcome(301).writes if isinstance(w, Remove)]
    assert gone == ([] if stays is None else ["a"])


def test_silence_is_measured_from_the_last_renewal_seen() -> None:
    clock = FakeClock()
    api = FakeApi(clock)
    mirrors = Mirrors(api)
    lifecycle = NodeLifecycle(mirrors, clock, grace=40.0)
    leases, nodes = mirrors.of(LEASES), mirrors.of(NODES)
    api.create(NODES, node())
    lease = {"metadata": {"name": "node1", "namespace": NODE_LEASES}, "spec": {}}
    api.create(LEASES, lease)
    key = ("", "node1")

    def renew() -> None:
        renewal = {"spec": {"renewTime": rfc3339_micro(clock.now())}}
        made = api.patch(LEASES, "node1", NODE_LEASES, renewal)
        eventually(lambda: leases.reached(made["metadata"]["resourceVersion"]))

    with mirrors:
        eventually(lambda: nodes.has_synced and leases.has_synced and bool(nodes.objects()))
        renew()
        assert lifecycle.look(key).again == 40.0
        clock.advance(30)
        renew()
        assert lifecycle.look(key).again == 40.0
        clock.advance(39)
        assert lifecycle.look(key).writes == ()
        clock.advance(1)
        assert lifecycle.look(key).writes != ()
        renew()
        assert lifecycle.look(key).writes == ()


def test_a_pod_on_a_node_that_does_not_exist_is_deleted_without_grace() -> None:
    [removed] = podgc.reconcile(pod(), node_exists=False).writes
    assert isinstance(removed, Remove)
    assert (removed.resource, removed.grace_seconds) == (PODS, 0)
    assert podgc.reconcile(pod(), node_exists=True).writes == ()


def test_a_namespace_gets_its_default_account_unless_it_has_one_or_is_dying() -> None:
    shop: Object = {"metadata": {"name": "shop"}}
    dying: Object = {"metadata": {"name": "shop", "deletionTimestamp": "x"}}
    assert len(serviceaccount.reconcile(shop, has_default=False).writes) == 1
    assert serviceaccount.reconcile(shop, has_default=True).writes == ()
    assert serviceaccount.reconcile(dying, has_default=False).writes == ()
