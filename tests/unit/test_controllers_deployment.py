"""One Deployment, one pass: which sets, which revision, which status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from labnet.client.kinds import DEPLOYMENTS, REPLICA_SETS
from labnet.clock import rfc3339
from labnet.controllers.deployment import Snapshot, reconcile
from labnet.controllers.rollout import strategy_of
from labnet.controllers.templates import REVISION, replica_set_of, template_hash
from labnet.controllers.writes import Create, Outcome, Patch, Remove, Update

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
Object = dict[str, Any]


def deployment(replicas: int = 2, image: str = "nginx:1", **spec: object) -> Object:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"image": image}]}}
    selector = {"matchLabels": labels}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 1},
        "spec": {"replicas": replicas, "selector": selector, "template": template, **spec},
    }


def a_set(
    of: Object, *, revision: int, age: int, ready: int = 0, wanted: int | None = None
) -> Object:
    """The ReplicaSet of ``of``'s template, ``age`` seconds old."""
    size = of["spec"]["replicas"] if wanted is None else wanted
    made = replica_set_of(of, strategy_of(of), size, revision)
    made["metadata"] |= {
        "uid": f"rs{revision}",
        "creationTimestamp": rfc3339(NOW - timedelta(seconds=age)),
    }
    made["status"] = {"replicas": size, "readyReplicas": ready, "availableReplicas": ready}
    return made


def look(of: Object, *sets: Object, pods_of: frozenset[str] = frozenset()) -> Outcome:
    return reconcile(Snapshot(of, sets, pods_of, NOW))


def marked(of: Object, revision: int) -> Object:
    of["metadata"]["annotations"] = {REVISION: str(revision)}
    return of


def written(outcome: Outcome, resource: object = REPLICA_SETS) -> list[Object]:
    return [
        w.object
        for w in outcome.writes
        if isinstance(w, Create | Update) and w.resource == resource
    ]


def test_a_new_deployment_gets_a_set_with_a_hash_in_name_labels_and_selector() -> None:
    web = deployment()
    [made] = written(look(web))
    digest = template_hash(web["spec"]["template"])
    assert made["metadata"]["name"] == f"web-{digest}"
    assert made["spec"]["selector"]["matchLabels"]["pod-template-hash"] == digest
    assert made["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] == digest
    assert made["spec"]["replicas"] == 2
    assert made["metadata"]["annotations"][REVISION] == "1"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "d"


def test_the_hash_is_the_same_for_the_same_template_whatever_the_order_of_its_keys() -> None:
    assert template_hash({"a": 1, "b": 2}) == template_hash({"b": 2, "a": 1})
    assert template_hash({"a": 1}) != template_hash({"a": 2})


def test_a_second_pass_does_nothing() -> None:
    web = marked(deployment(), 1)
    current = a_set(web, revision=1, age=60, ready=2)
    first = look(web, current)
    [shown] = written(first, DEPLOYMENTS)
    assert look(shown, current).writes == ()


def test_the_status_is_what_kubectl_rollout_status_waits_for() -> None:
    web = marked(deployment(), 1)
    [shown] = written(look(web, a_set(web, revision=1, age=60, ready=2)), DEPLOYMENTS)
    status = shown["status"]
    assert {k: v for k, v in status.items() if k != "conditions"} == {
        "observedGeneration": 1,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
    }
    assert {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]} == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }


def test_a_changed_template_makes_the_next_revision() -> None:
    old = a_set(deployment(4, "nginx:1"), revision=1, age=60, ready=4)
    web = marked(deployment(4, "nginx:2"), 1)
    outcome = look(web, old)
    [made] = written(outcome)
    assert made["metadata"]["annotations"][REVISION] == "2"
    assert made["spec"]["replicas"] == 1, "as many as maxSurge allows"
    [patch] = [w for w in outcome.writes if isinstance(w, Patch)]
    assert patch.patch == {"metadata": {"annotations": {REVISION: "2"}}}


def test_going_back_to_an_old_template_gives_its_set_the_newest_revision() -> None:
    first = a_set(deployment(2, "nginx:1"), revision=1, age=90, wanted=0)
    second = a_set(deployment(2, "nginx:2"), revision=2, age=60, ready=2)
    web = marked(deployment(2, "nginx:1"), 2)
    patches = [w for w in look(web, first, second).writes if isinstance(w, Patch)]
    assert [(p.resource, p.patch["metadata"]["annotations"][REVISION]) for p in patches] == [
        (REPLICA_SETS, "3"),
        (DEPLOYMENTS, "3"),
    ]


def test_a_rollout_that_does_not_get_on_is_said_to_be_stuck() -> None:
    web = marked(deployment(progressDeadlineSeconds=30), 1)
    current = a_set(web, revision=1, age=60)
    [shown] = written(look(web, current), DEPLOYMENTS)
    later = reconcile(Snapshot(shown, (current,), frozenset(), NOW + timedelta(seconds=31)))
    [stuck] = written(later, DEPLOYMENTS)
    [progressing] = [c for c in stuck["status"]["conditions"] if c["type"] == "Progressing"]
    assert (progressing["status"], progressing["reason"]) == ("False", "ProgressDeadlineExceeded")
    assert look(shown, current).again == 30


def test_pods_that_fail_after_a_rollout_is_done_make_it_unavailable_not_unfinished() -> None:
    web = marked(deployment(4), 1)
    [done] = written(look(web, a_set(web, revision=1, age=60, ready=4)), DEPLOYMENTS)
    [shown] = written(look(done, a_set(web, revision=1, age=60, ready=1)), DEPLOYMENTS)
    conditions = {c["type"]: (c["status"], c["reason"]) for c in shown["status"]["conditions"]}
    assert conditions["Available"] == ("False", "MinimumReplicasUnavailable")
    assert conditions["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_scaling_changes_the_set_and_notes_what_it_was_sized_for() -> None:
    current = a_set(deployment(2), revision=1, age=60, ready=2)
    web = marked(deployment(5), 1)
    [sized] = written(look(web, current))
    assert sized["spec"]["replicas"] == 5
    assert sized["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"] == "5"


def test_recreate_waits_for_the_last_old_pod() -> None:
    recreate = {"strategy": {"type": "Recreate"}}
    old = a_set(deployment(2, "nginx:1", **recreate), revision=1, age=60, wanted=0)
    web = marked(deployment(2, "nginx:2", **recreate), 1)
    assert written(look(web, old, pods_of=frozenset({"rs1"}))) == []
    [made] = written(look(web, old))
    assert made["spec"]["replicas"] == 2


def test_empty_sets_beyond_the_history_limit_are_deleted_oldest_first() -> None:
    web = marked(deployment(1, "nginx:9", revisionHistoryLimit=1), 9)
    current = a_set(web, revision=9, age=1, ready=1)
    old = [a_set(deployment(1, f"nginx:{i}"), revision=i, age=90 - i, wanted=0) for i in (1, 2, 3)]
    [done] = written(look(web, current, *old), DEPLOYMENTS)
    removed = [w.uid for w in look(done, current, *old).writes if isinstance(w, Remove)]
    assert removed == ["rs1", "rs2"]


def test_an_orphaned_set_with_the_right_labels_is_adopted() -> None:
    web = marked(deployment(), 1)
    orphan = a_set(web, revision=1, age=60, ready=2)
    orphan["metadata"].pop("ownerReferences")
    [patch] = [w for w in look(web, orphan).writes if isinstance(w, Patch)]
    assert patch.patch["metadata"]["ownerReferences"][0]["uid"] == "d"


def test_a_deployment_that_is_being_deleted_only_reports() -> None:
    web = deployment()
    web["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    assert written(look(web)) == []
