"""Writes: optimistic locking, subresources, deletion, dry runs, namespaces."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.server import RunningServer, config_map, pod

_WANTED = ("spec", "subsets", "endpoints", "ports")
_MAPS = "/api/v1/namespaces/default/configmaps"
_PODS = "/api/v1/namespaces/default/pods"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_MERGE = "application/merge-patch+json"


def _patch(api: RunningServer, path: str, patch: object, kind: str = _MERGE) -> dict[str, Any]:
    answer = api.request("PATCH", path, patch, Content_Type=kind)
    assert answer.status == 200, answer.body
    return answer.json


def _deployment(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    }


def test_creating_the_same_name_twice_conflicts(api: RunningServer) -> None:
    assert api.post(_MAPS, config_map("a")).status == 201
    again = api.post(_MAPS, config_map("a"))
    assert (again.status, again.json["reason"]) == (409, "AlreadyExists")
    assert again.json["message"] == 'configmaps "a" already exists'


def test_of_many_who_create_one_name_one_succeeds(api: RunningServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda _: api.post(_MAPS, config_map("a")).status, range(16)))
    assert sorted(codes) == [201] + [409] * 15


def test_generated_names_differ(api: RunningServer) -> None:
    body = {"metadata": {"generateName": "m-"}}
    names = {api.post(_MAPS, body).json["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("m-") and len(name) == 7 for name in names)


def test_a_stale_put_conflicts_and_a_fresh_one_does_not(api: RunningServer) -> None:
    old = api.post(_MAPS, config_map("a", k="1")).json
    fresh = api.request("PUT", f"{_MAPS}/a", {**old, "data": {"k": "2"}})
    assert fresh.status == 200
    stale = api.request("PUT", f"{_MAPS}/a", {**old, "data": {"k": "3"}})
    assert (stale.status, stale.json["reason"]) == (409, "Conflict")
    assert "the object has been modified" in stale.json["message"]


def test_a_write_that_changes_nothing_keeps_the_version(api: RunningServer) -> None:
    before = api.post(_MAPS, config_map("a", k="1")).json["metadata"]["resourceVersion"]
    after = _patch(api, f"{_MAPS}/a", {"data": {"k": "1"}})["metadata"]["resourceVersion"]
    assert before == after


def test_concurrent_patches_without_a_version_all_arrive(api: RunningServer) -> None:
    api.post(_MAPS, config_map("a"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: _patch(api, f"{_MAPS}/a", {"data": {f"k{n}": "v"}}), range(24)))
    assert len(api.get(f"{_MAPS}/a").json["data"]) == 24


def test_status_and_the_rest_are_written_through_different_doors(api: RunningServer) -> None:
    created = api.post(_DEPLOYMENTS, _deployment("web")).json
    assert created["metadata"]["generation"] == 1
    status = {"status": {"readyReplicas": 1, "replicas": 1}}
    assert "readyReplicas" not in _patch(api, f"{_DEPLOYMENTS}/web", status).get("status", {})
    after = _patch(api, f"{_DEPLOYMENTS}/web/status", {**status, "spec": {"replicas": 9}})
    assert after["status"]["readyReplicas"] == 1
    assert after["spec"]["replicas"] == 1
    assert after["metadata"]["generation"] == 1


def test_scale_reads_and_writes_the_replicas(api: RunningServer) -> None:
    api.post(_DEPLOYMENTS, _deployment("web"))
    scale = api.get(f"{_DEPLOYMENTS}/web/scale").json
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 1)
    scale["spec"]["replicas"] = 3
    assert api.request("PUT", f"{_DEPLOYMENTS}/web/scale", scale).json["spec"]["replicas"] == 3
    assert _patch(api, f"{_DEPLOYMENTS}/web/scale", {"spec": {"replicas": 4}})["kind"] == "Scale"
    assert api.get(f"{_DEPLOYMENTS}/web").json["metadata"]["generation"] == 3


def test_a_binding_puts_a_pod_on_a_node_once(api: RunningServer) -> None:
    api.post(_PODS, pod("web"))
    binding = {
        "metadata": {"name": "web", "annotations": {"labnet.dev/pod-ip": "10.244.1.10"}},
        "target": {"kind": "Node", "name": "node1"},
    }
    assert api.post(f"{_PODS}/web/binding", binding).status == 201
    bound = api.get(f"{_PODS}/web").json
    assert bound["spec"]["nodeName"] == "node1"
    assert bound["metadata"]["annotations"]["labnet.dev/pod-ip"] == "10.244.1.10"
    assert api.post(f"{_PODS}/web/binding", binding).status == 409


def test_a_running_pod_is_deleted_in_two_steps_a_pending_one_in_one(api: RunningServer) -> None:
    api.post(_PODS, pod("pending"))
    gone = api.request("DELETE", f"{_PODS}/pending").json
    assert (gone["kind"], gone["status"]) == ("Status", "Success")
    assert api.get(f"{_PODS}/pending").status == 404
    api.post(_PODS, pod("web", "node1"))
    marked = api.request("DELETE", f"{_PODS}/web").json
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert api.get(f"{_PODS}/web").status == 200
    api.request("DELETE", f"{_PODS}/web?gracePeriodSeconds=0")
    assert api.get(f"{_PODS}/web").status == 404


def test_the_last_finalizer_removes_a_deleted_object(api: RunningServer) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["example.org/held"]
    api.post(_MAPS, body)
    held = api.request("DELETE", f"{_MAPS}/a").json
    assert held["metadata"]["deletionTimestamp"]
    _patch(api, f"{_MAPS}/a", {"metadata": {"finalizers": None}})
    assert api.get(f"{_MAPS}/a").status == 404


def test_a_failed_precondition_deletes_nothing(api: RunningServer) -> None:
    api.post(_MAPS, config_map("a"))
    answer = api.request("DELETE", f"{_MAPS}/a", {"preconditions": {"uid": "another"}})
    assert answer.status == 409
    assert api.get(f"{_MAPS}/a").status == 200


def test_a_collection_is_deleted_by_selector(api: RunningServer) -> None:
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        api.post(_PODS, pod(name, app=app))
    answer = api.request("DELETE", f"{_PODS}?labelSelector=app%3Dx")
    assert answer.json["kind"] == "PodList"
    assert [p["metadata"]["name"] for p in api.get(_PODS).json["items"]] == ["c"]


def test_an_eviction_deletes_the_pod(api: RunningServer) -> None:
    api.post(_PODS, pod("web"))
    assert api.post(f"{_PODS}/web/eviction", {}).status == 201
    assert api.get(f"{_PODS}/web").status == 404


def test_a_dry_run_stores_nothing(api: RunningServer) -> None:
    created = api.post(f"{_MAPS}?dryRun=All", config_map("a"))
    assert (created.status, "uid" in created.json["metadata"]) == (201, True)
    assert api.get(f"{_MAPS}/a").status == 404
    api.post(_MAPS, config_map("a"))
    assert api.request("DELETE", f"{_MAPS}/a?dryRun=All").status == 200
    assert api.get(f"{_MAPS}/a").status == 200


def test_unknown_fields_are_refused_warned_about_or_dropped(api: RunningServer) -> None:
    body = {**config_map("a"), "datas": {}}
    strict = api.post(f"{_MAPS}?fieldValidation=Strict", body)
    assert strict.status == 400
    assert 'unknown field "datas"' in strict.json["message"]
    warned = api.post(f"{_MAPS}?fieldValidation=Warn", body)
    assert warned.headers["Warning"] == '299 - "unknown field \\"datas\\""'
    assert "datas" not in warned.json


def test_a_namespace_must_be_there_and_not_going(api: RunningServer) -> None:
    missing = api.post("/api/v1/namespaces/nowhere/configmaps", config_map("a"))
    assert missing.json["message"] == 'namespaces "nowhere" not found'
    api.post("/api/v1/namespaces", {"metadata": {"name": "going"}})
    going = api.request("DELETE", "/api/v1/namespaces/going").json
    assert going["status"]["phase"] == "Terminating"
    refused = api.post("/api/v1/namespaces/going/configmaps", config_map("a"))
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    assert "because it is being terminated" in refused.json["message"]
    finalized = {"metadata": {"name": "going"}, "spec": {"finalizers": []}}
    api.request("PUT", "/api/v1/namespaces/going/finalize", finalized)
    assert api.get("/api/v1/namespaces/going").status == 404


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_a_namespace_that_the_cluster_needs_is_not_deleted(api: RunningServer, name: str) -> None:
    refused = api.request("DELETE", f"/api/v1/namespaces/{name}")
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    why = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert refused.json["message"] == why


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/services/kubernetes",
        "/api/v1/namespaces/default/endpoints/kubernetes",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
    ],
)
def test_what_the_api_itself_needs_comes_back_when_deleted(api: RunningServer, path: str) -> None:
    before = api.get(path).json
    assert api.request("DELETE", path).status == 200
    api.server.bootstrap()
    after = api.get(path).json
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert [after.get(k) for k in _WANTED] == [before.get(k) for k in _WANTED]


def test_looking_after_the_first_objects_writes_nothing_while_all_are_there(
    api: RunningServer,
) -> None:
    before = api.server.parts.cache.revision
    api.server.bootstrap()
    assert api.post(_MAPS, config_map("next")).json["metadata"]["resourceVersion"] == str(
        before + 1
    )


def test_verbs_a_resource_lacks_are_not_allowed(api: RunningServer) -> None:
    assert api.request("PUT", _MAPS, config_map("a")).status == 405
    assert api.post(f"{_MAPS}/a", config_map("a")).status == 405
    assert api.get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").status == 405


def test_bodies_that_cannot_be_read_are_the_clients_fault(api: RunningServer) -> None:
    assert api.request("POST", _MAPS, b"{").status == 400
    assert api.request("POST", _MAPS, b"x", Content_Type="text/html").status == 415
    assert api.post(_MAPS, pod("a")).status == 400
    assert api.post(_MAPS, config_map("No Such Name")).status == 422


def test_a_cluster_has_its_first_objects(api: RunningServer) -> None:
    listed = api.get("/api/v1/namespaces").json["items"]
    names = [n["metadata"]["name"] for n in listed]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    service = api.get("/api/v1/namespaces/default/services/kubernetes").json
    assert service["spec"]["clusterIP"] == "10.0.0.1"
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
    assert api.get(slices).json["ports"][0]["port"] == api.port


def test_events_are_bound_to_a_lease_that_several_share(api: RunningServer) -> None:
    path = "/api/v1/namespaces/default/events"
    for name in ("a", "b"):
        involved = {"kind": "Pod", "name": "web", "namespace": "default"}
        body = {"metadata": {"name": name}, "involvedObject": involved, "reason": "Started"}
        assert api.post(path, body).status == 201
    leases = {kv.lease for kv in api.store.range("/registry/events/").items}
    assert len(leases) == 1
    assert leases != {0}
