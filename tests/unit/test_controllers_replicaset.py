"""One ReplicaSet, one pass: which pods are made, which go, what it reports."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from labnet.clock import rfc3339
from labnet.controllers.replicaset import Snapshot, reconcile
from labnet.controllers.writes import Create, Outcome, Patch, Remove, Update

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
Object = dict[str, Any]


def replica_set(replicas: int, **spec: object) -> Object:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels, "annotations": {"note": "x"}},
        "spec": {"containers": [{"image": "nginx"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "namespace": "default", "uid": "rs", "generation": 3},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
            **spec,
        },
    }


def pod(
    name: str, *, ready: bool = True, node: str = "node1", age: int = 60, **more: Any
) -> Object:
    owner = {"uid": "rs", "kind": "ReplicaSet", "name": "web-1", "controller": True}
    moment = rfc3339(NOW - timedelta(seconds=age))
    conditions = [
        {"type": "Ready", "status": str(ready), "lastTransitionTime": moment},
    ]
    found: Object = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": {"app": "web"},
            "ownerReferences": [owner],
            "creationTimestamp": moment,
        },
        "spec": {"nodeName": node},
        "status": {"phase": "Running" if node else "Pending", "conditions": conditions},
    }
    found["metadata"] |= more.pop("metadata", {})
    return found | more


def look(of: Object, *pods: Object, gone: frozenset[str] = frozenset()) -> Outcome:
    return reconcile(Snapshot(of, pods, gone, NOW))


def removed(outcome: Outcome) -> list[str]:
    return [w.uid for w in outcome.writes if isinstance(w, Remove)]


def created(outcome: Outcome) -> list[Object]:
    return [w.object for w in outcome.writes if isinstance(w, Create)]


def status(outcome: Outcome) -> Object:
    [update] = [w for w in outcome.writes if isinstance(w, Update)]
    found: Object = update.object["status"]
    return found


def test_missing_pods_are_copies_of_the_template_with_generated_names() -> None:
    made = created(look(replica_set(3), pod("a")))
    assert len(made) == 2
    assert made[0]["metadata"]["generateName"] == "web-1-"
    assert made[0]["metadata"]["labels"] == {"app": "web"}
    assert made[0]["metadata"]["annotations"] == {"note": "x"}
    assert made[0]["metadata"]["ownerReferences"][0]["controller"] is True
    assert made[0]["spec"] == {"containers": [{"image": "nginx"}]}


def test_a_second_pass_does_nothing() -> None:
    current = replica_set(1)
    current["status"] = status(look(current, pod("a")))
    assert look(current, pod("a")).writes == ()


def test_pods_that_ended_or_are_ending_do_not_count() -> None:
    failed = pod("a", status={"phase": "Failed"})
    ending = pod("b", metadata={"deletionTimestamp": rfc3339(NOW)})
    assert len(created(look(replica_set(2), failed, ending))) == 2


def test_pods_whose_deletion_the_mirror_does_not_show_yet_do_not_count() -> None:
    outcome = look(replica_set(1), pod("a"), pod("b"), gone=frozenset({"a"}))
    assert removed(outcome) == []
    assert created(outcome) == []


def test_surplus_pods_go_where_least_is_lost() -> None:
    pods = [
        pod("old", age=90),
        pod("young", age=10),
        pod("unready", ready=False, age=90),
        pod("unplaced", ready=False, node="", age=90),
        pod("crowded", node="node2", age=90),
        pod("crowded2", node="node2", age=80),
    ]
    order = removed(look(replica_set(1), *pods))
    assert order == ["unplaced", "unready", "young", "old", "crowded2"]
    assert removed(look(replica_set(4), *pods)) == order[:2]


def test_a_pod_says_how_much_its_loss_costs() -> None:
    cheap = {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}
    assert removed(look(replica_set(1), pod("a", age=5), pod("b", metadata=cheap))) == ["b"]


def test_orphans_with_the_labels_are_adopted_and_others_pods_are_not() -> None:
    orphan = pod("a", metadata={"ownerReferences": []})
    other = pod("b")
    other["metadata"]["ownerReferences"][0]["uid"] = "another"
    [patch] = [w for w in look(replica_set(1), orphan, other).writes if isinstance(w, Patch)]
    assert (patch.name, patch.patch["metadata"]["ownerReferences"][0]["uid"]) == ("a", "rs")


def test_a_pod_that_lost_its_labels_is_released_and_replaced() -> None:
    outcome = look(replica_set(1), pod("a", metadata={"labels": {"app": "debug"}}))
    [patch] = [w for w in outcome.writes if isinstance(w, Patch)]
    assert patch.patch["metadata"]["ownerReferences"] is None
    assert len(created(outcome)) == 1


def test_the_status_counts_ready_and_available_pods() -> None:
    pods = [pod("a"), pod("b", ready=False), pod("c")]
    assert status(look(replica_set(3), *pods)) == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "observedGeneration": 3,
    }


def test_a_ready_pod_is_available_after_min_ready_seconds() -> None:
    outcome = look(replica_set(1, minReadySeconds=30), pod("a", age=10))
    assert "availableReplicas" not in status(outcome)
    assert outcome.again == 20


def test_a_set_that_is_being_deleted_makes_nothing() -> None:
    dying = replica_set(3)
    dying["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    assert created(look(dying)) == []
