"""The way of a write: defaults, identity, who may change what, and no-ops."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from labnet.api import meta, resources, services, subresources, writes
from labnet.api.deletion import deletion, finished
from labnet.api.status import ApiError
from labnet.api.writes import Write

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCENARIO = Path(__file__).parents[2] / "scenarios" / "my-nginx.yaml"


class Counting:
    """A chooser that counts."""

    def __init__(self) -> None:
        self._uids = iter(range(1, 1000))

    def uid(self) -> str:
        return f"uid-{next(self._uids)}"

    def suffix(self) -> str:
        return "bcdfg"


def _write(api_version: str, kind: str, subresource: str = "") -> Write:
    resource = resources.by_kind(api_version, kind)
    assert resource is not None
    namespace = "default" if resource.namespaced else ""
    return Write(resource, "test", NOW, Counting(), subresource, namespace)


def _created(body: dict[str, Any]) -> dict[str, Any]:
    write = _write(body["apiVersion"], body["kind"])
    before = deepcopy(body)
    new = writes.create(write, body)
    assert body == before, "the body was changed"
    return meta.from_store(meta.stored_bytes(new), 7)


def _updated(old: dict[str, Any], body: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    before = deepcopy(old)
    new = writes.update(_write(old["apiVersion"], old["kind"], subresource), old, body)
    assert old == before, "the old object was changed"
    return new


def _pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "nginx"}]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p"},
        "spec": {"containers": containers} | spec,
    }


def _deployment(version: str = "apps/v1") -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": _pod()["spec"]}
    return {
        "kind": "Deployment",
        "apiVersion": version,
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }


def _service(**spec: Any) -> dict[str, Any]:
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}} | spec,
    }


def _manifests() -> Iterator[dict[str, Any]]:
    for document in yaml.safe_load_all(SCENARIO.read_text()):
        if document["kind"] != "Lab":
            document["metadata"].pop("namespace", None)
            yield document


def _round() -> list[dict[str, Any]]:
    return [_pod(), _deployment(), _deployment("extensions/v1beta1"), _service(), *_manifests()]


@pytest.mark.parametrize("body", _round(), ids=lambda b: b["kind"] + "-" + b["metadata"]["name"])
def test_writing_back_what_was_read_changes_nothing(body: dict[str, Any]) -> None:
    created = _created(body)
    assert writes.update(_write(body["apiVersion"], body["kind"]), created, created) is created


def test_a_new_object_gets_its_identity_from_the_server() -> None:
    body = _deployment()
    body["metadata"] |= {
        "uid": "mine",
        "generation": 9,
        "creationTimestamp": "2000-01-01T00:00:00Z",
    }
    body["status"] = {"replicas": 3}
    created = _created(body)
    (entry,) = created["metadata"].pop("managedFields")
    assert (entry["manager"], entry["operation"]) == ("test", "Update")
    assert created["metadata"] == {
        "name": "d",
        "namespace": "default",
        "uid": "uid-1",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "resourceVersion": "7",
    }
    assert created["status"] == {}


def test_generate_name_gets_a_suffix() -> None:
    body = _pod()
    body["metadata"] = {"generateName": "p-"}
    assert _created(body)["metadata"]["name"] == "p-bcdfg"


def test_a_resource_version_is_no_part_of_a_new_object_nor_of_the_stored_bytes() -> None:
    body = _pod()
    body["metadata"]["resourceVersion"] = "3"
    with pytest.raises(ApiError, match="resourceVersion should not be set"):
        _created(body)
    assert b"resourceVersion" not in meta.stored_bytes(_created(_pod()))


def test_the_namespace_of_body_and_url_have_to_agree() -> None:
    body = _pod()
    body["metadata"]["namespace"] = "other"
    with pytest.raises(ApiError, match="does not match the namespace sent on the request"):
        _created(body)


def test_the_articles_deployment_gets_the_defaults_of_its_version() -> None:
    body = _deployment("extensions/v1beta1")
    del body["spec"]["selector"]
    created = _created(body)
    assert created["spec"]["selector"] == {"matchLabels": {"a": "b"}}
    assert created["metadata"]["labels"] == {"a": "b"}
    assert created["spec"]["replicas"] == 1
    assert created["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 1}
    stored = writes.stored(_write("extensions/v1beta1", "Deployment").resource, created)
    assert stored["apiVersion"] == "apps/v1"
    assert writes.shown(_write("extensions/v1beta1", "Deployment").resource, stored) == created


def test_todays_deployment_gets_todays_defaults() -> None:
    spec = _created(_deployment())["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": "25%", "maxUnavailable": "25%"}
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert "tolerations" not in spec["template"]["spec"]


def test_a_pod_gets_defaults_admission_and_a_first_status() -> None:
    created = _created(_pod())
    spec = created["spec"]
    assert spec["securityContext"] == {}
    assert (spec["restartPolicy"], spec["dnsPolicy"]) == ("Always", "ClusterFirst")
    assert spec["serviceAccountName"] == "default"
    assert len(spec["tolerations"]) == 2
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("nginx@sha256:00", "IfNotPresent"),
    ],
)
def test_an_image_without_a_fixed_tag_is_always_pulled(image: str, policy: str) -> None:
    created = _created(_pod(containers=[{"name": "c", "image": image}]))
    assert created["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resources_", "qos"),
    [
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({}, "BestEffort"),
    ],
)
def test_requests_and_limits_make_the_qos_class(resources_: dict[str, Any], qos: str) -> None:
    pod = _created(_pod(containers=[{"name": "c", "image": "x", "resources": resources_}]))
    assert pod["status"]["qosClass"] == qos


def test_a_namespace_is_active_and_kept_until_it_is_empty() -> None:
    created = _created({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "n"}})
    assert created["spec"]["finalizers"] == ["kubernetes"]
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    resource = _write("v1", "Namespace").resource
    going = deletion(resource, created, {}, NOW)
    assert not going.remove
    assert going.object["status"]["phase"] == "Terminating"
    empty = _updated(going.object, {"spec": {"finalizers": []}}, "finalize")
    assert finished(empty)
    assert not finished(going.object)


def test_status_and_spec_are_written_through_different_doors() -> None:
    created = _created(_deployment())
    body = deepcopy(created)
    body["spec"]["replicas"] = 5
    body["status"] = {"replicas": 4}
    main, status = _updated(created, body), _updated(created, body, "status")
    assert (main["spec"]["replicas"], main["status"]) == (5, {})
    assert (status["spec"]["replicas"], status["status"]) == (1, {"replicas": 4})
    assert (main["metadata"]["generation"], status["metadata"]["generation"]) == (2, 1)


def test_labels_do_not_count_as_a_new_generation() -> None:
    created = _created(_deployment())
    body = deepcopy(created)
    body["metadata"]["labels"] = {"x": "y"}
    assert _updated(created, body)["metadata"]["generation"] == 1


def test_an_old_resource_version_or_another_uid_is_a_conflict() -> None:
    created = _created(_pod())
    for name, value in (("resourceVersion", "6"), ("uid", "other")):
        body = deepcopy(created)
        body["metadata"][name] = value
        with pytest.raises(ApiError) as refused:
            _updated(created, body)
        assert (refused.value.code, refused.value.reason) == (409, "Conflict")


def test_another_name_is_a_bad_request() -> None:
    created = _created(_pod())
    body = deepcopy(created)
    body["metadata"]["name"] = "q"
    with pytest.raises(ApiError, match=r"the name of the object \(q\) does not match"):
        _updated(created, body)


def test_a_pods_image_may_change_and_its_command_may_not() -> None:
    created = _created(_pod())
    body = deepcopy(created)
    body["spec"]["containers"][0]["image"] = "nginx:2"
    assert _updated(created, body)["spec"]["containers"][0]["image"] == "nginx:2"
    body["spec"]["containers"][0]["command"] = ["sh"]
    with pytest.raises(ApiError, match="pod updates may not change fields other than"):
        _updated(created, body)


def _node_port() -> dict[str, Any]:
    created = _created(_service(type="NodePort"))
    assert services.needs_cluster_ip(created)
    assert services.needs_node_ports(created) == [0]
    services.with_cluster_ip(created, "10.0.0.1")
    created["spec"]["ports"][0]["nodePort"] = 30001
    assert not services.needs_cluster_ip(created)
    return created


def test_a_replaced_service_keeps_what_was_allocated() -> None:
    old = _node_port()
    spec = _updated(old, _service(type="NodePort"))["spec"]
    assert (spec["clusterIP"], spec["clusterIPs"]) == ("10.0.0.1", ["10.0.0.1"])
    assert spec["ports"][0]["nodePort"] == 30001


def test_a_service_that_becomes_cluster_ip_gives_its_node_port_back() -> None:
    old = _node_port()
    body = deepcopy(old)
    body["spec"]["type"] = "ClusterIP"
    spec = _updated(old, body)["spec"]
    assert "nodePort" not in spec["ports"][0]
    assert "externalTrafficPolicy" not in spec
    assert spec["clusterIP"] == "10.0.0.1"


def test_a_cluster_ip_does_not_change() -> None:
    with pytest.raises(ApiError, match="may not change once set"):
        _updated(_node_port(), _service(clusterIP="10.0.0.2"))


def test_a_service_that_becomes_external_gives_its_address_back() -> None:
    old = _node_port()
    body = deepcopy(old)
    body["spec"] |= {"type": "ExternalName", "externalName": "a.example"}
    spec = _updated(old, body)["spec"]
    assert "clusterIP" not in spec
    assert "nodePort" not in spec["ports"][0]


def test_scale_is_read_and_written_by_its_own_kind() -> None:
    created = _created(_deployment())
    scale = subresources.scale_of(created)
    assert scale["spec"] == {"replicas": 1}
    assert scale["status"] == {"replicas": 0, "selector": "a=b"}
    scaled = _updated(created, scale | {"spec": {"replicas": 4}}, "scale")
    assert scaled["spec"] == created["spec"] | {"replicas": 4}
    assert scaled["metadata"]["generation"] == 2
    with pytest.raises(ApiError, match="must be greater than or equal to 0"):
        _updated(created, scale | {"spec": {"replicas": -1}}, "scale")


def test_the_selector_of_a_scale_is_text() -> None:
    expressions = [
        {"key": "x", "operator": "In", "values": ["b", "a"]},
        {"key": "y", "operator": "DoesNotExist"},
    ]
    obj = {"metadata": {}, "spec": {"selector": {"matchExpressions": expressions}}}
    assert subresources.scale_of(obj)["status"]["selector"] == "x in (a,b),!y"
    controller = {"metadata": {}, "spec": {"selector": {"a": "b"}}}
    assert subresources.scale_of(controller)["status"]["selector"] == "a=b"


def test_binding_puts_a_pod_on_a_node_with_the_bindings_annotations() -> None:
    pod = _created(_pod())
    binding = {
        "metadata": {"annotations": {"labnet.dev/pod-ip": "10.244.1.10"}},
        "target": {"name": "node1"},
    }
    bound = subresources.bound(pod, binding, "2026-01-01T00:00:00Z")
    assert bound["spec"]["nodeName"] == "node1"
    assert bound["metadata"]["annotations"] == {"labnet.dev/pod-ip": "10.244.1.10"}
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    with pytest.raises(ApiError, match='already assigned to node "node1"'):
        subresources.bound(bound, binding, "")
    with pytest.raises(ApiError, match="Required value"):
        subresources.bound(pod, {}, "")


def _running(grace: int = 30) -> dict[str, Any]:
    return _created(_pod(nodeName="node1", terminationGracePeriodSeconds=grace))


PODS = _write("v1", "Pod").resource


def test_a_running_pod_is_only_marked_and_ends_with_grace_zero() -> None:
    first = deletion(PODS, _running(), {}, NOW)
    assert not first.remove
    assert first.object["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    assert not finished(first.object)
    again = deletion(PODS, first.object, {}, NOW + timedelta(seconds=5))
    assert again.object is first.object
    assert deletion(PODS, first.object, {"gracePeriodSeconds": 0}, NOW).remove


def test_a_grace_period_is_cut_and_never_lengthened() -> None:
    first = deletion(PODS, _running(), {"gracePeriodSeconds": 10}, NOW).object
    longer = deletion(PODS, first, {"gracePeriodSeconds": 60}, NOW).object
    assert longer["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:10Z"
    shorter = deletion(PODS, first, {"gracePeriodSeconds": 3}, NOW).object
    assert shorter["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:03Z"


def test_a_pod_that_nobody_runs_is_removed_at_once() -> None:
    assert deletion(PODS, _created(_pod()), {}, NOW).remove
    ended = _running() | {"status": {"phase": "Succeeded"}}
    assert deletion(PODS, ended, {}, NOW).remove


def test_finalizers_hold_an_object_until_they_are_gone() -> None:
    deployments = _write("apps/v1", "Deployment").resource
    created = _created(_deployment())
    held = deletion(deployments, created, {"propagationPolicy": "Foreground"}, NOW)
    assert not held.remove
    assert held.object["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert not finished(held.object)
    body = deepcopy(held.object)
    body["metadata"]["finalizers"] = []
    assert finished(_updated(held.object, body))


def test_background_deletion_removes_at_once_and_an_unknown_policy_is_refused() -> None:
    deployments = _write("apps/v1", "Deployment").resource
    created = _created(_deployment())
    assert deletion(deployments, created, {"propagationPolicy": "Background"}, NOW).remove
    with pytest.raises(ApiError, match="invalid propagationPolicy"):
        deletion(deployments, created, {"propagationPolicy": "Later"}, NOW)


@pytest.mark.parametrize("name", ["uid", "resourceVersion"])
def test_a_failed_precondition_is_a_conflict(name: str) -> None:
    with pytest.raises(ApiError) as refused:
        deletion(PODS, _created(_pod()), {"preconditions": {name: "other"}}, NOW)
    assert refused.value.code == 409


def test_a_job_gets_a_selector_of_its_own() -> None:
    template = {"spec": _pod(restartPolicy="Never")["spec"]}
    job = {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j"}}
    created = _created(job | {"spec": {"template": template}})
    key = "batch.kubernetes.io/controller-uid"
    assert created["spec"]["selector"] == {"matchLabels": {key: "uid-1"}}
    assert created["spec"]["template"]["metadata"]["labels"][key] == "uid-1"


def test_events_are_the_same_in_both_groups() -> None:
    new = resources.by_kind("events.k8s.io/v1", "Event")
    assert new is not None
    event = {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "note": "n",
        "regarding": {"name": "p"},
    }
    stored = writes.stored(new, event)
    assert stored == {
        "kind": "Event",
        "apiVersion": "v1",
        "message": "n",
        "involvedObject": {"name": "p"},
    }
    assert writes.shown(new, stored) == event


def test_reviews_say_who_asks_and_that_it_is_allowed() -> None:
    who = subresources.self_subject_review("SelfSubjectReview", {}, "me", "", ["g"])
    assert who["status"] == {"userInfo": {"username": "me", "groups": ["g"]}}
    may = subresources.self_subject_review("SelfSubjectAccessReview", {}, "me", "", [])
    assert may["status"]["allowed"] is True
    rules = subresources.self_subject_review("SelfSubjectRulesReview", {}, "me", "", [])
    assert rules["status"]["incomplete"] is False


def test_a_write_is_a_value() -> None:
    write = _write("v1", "Pod")
    assert replace(write, name="x").name == "x"
    assert json.loads(meta.stored_bytes(_created(_pod())))["kind"] == "Pod"
