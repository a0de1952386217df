"""What loops rely on from an API server, held against the fake and against the real one.

The real one is labnet's API server over a store in memory, asked by the HTTP client
through TLS; so these tests are also the client's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labnet.client.api import Api, Refused
from labnet.client.fake import FakeApi
from labnet.client.http import Client
from labnet.client.kinds import CONFIGMAPS, DEPLOYMENTS, NAMESPACES, NODES, PODS, SERVICES
from labnet.errors import AlreadyExists, Conflict, NotFound
from labnet.store.memory import MemoryStore
from tests.api.server import RunningServer
from tests.conditions import eventually
from tests.etcd_server import write_certificates

Object = dict[str, Any]


@pytest.fixture(params=["fake", "real"])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    if request.param == "fake":
        yield FakeApi()
        return
    tls = write_certificates(tmp_path)
    with (
        RunningServer(MemoryStore(), tls, tmp_path) as server,
        Client(f"https://127.0.0.1:{server.port}", tls) as client,
    ):
        eventually(lambda: bool(client.list(NAMESPACES, fields="metadata.name=default").items))
        yield client


def config(name: str = "", namespace: str = "default", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def pod(name: str, **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    }


def deployment(replicas: int) -> Object:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("")["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def names(found: Any) -> list[str]:
    return [o["metadata"]["name"] for o in found.items]


def test_a_created_object_has_uid_time_and_version_and_is_there(api: Api) -> None:
    made = api.create(CONFIGMAPS, config("a", x="1"))
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"]
    assert api.get(CONFIGMAPS, "a", "default") == made


def test_a_name_is_taken_once(api: Api) -> None:
    api.create(CONFIGMAPS, config("a"))
    with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
        api.create(CONFIGMAPS, config("a"))


def test_generated_names_differ(api: Api) -> None:
    unnamed = config()
    unnamed["metadata"] = {"generateName": "c-", "namespace": "default"}
    made = [api.create(CONFIGMAPS, unnamed)["metadata"]["name"] for _ in range(5)]
    assert len(set(made)) == 5
    assert all(name.startswith("c-") and len(name) == 7 for name in made)


def test_what_is_not_there_is_not_found(api: Api) -> None:
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        api.get(CONFIGMAPS, "a", "default")
    with pytest.raises(NotFound):
        api.delete(CONFIGMAPS, "a", "default")
    with pytest.raises(NotFound):
        api.update(CONFIGMAPS, config("a"))


def test_lists_are_of_one_namespace_or_all_and_obey_selectors(api: Api) -> None:
    api.create(PODS, pod("a", app="web"))
    api.create(PODS, pod("b", app="db"))
    assert names(api.list(PODS)) == ["a", "b"]
    assert names(api.list(PODS, "kube-system")) == []
    assert names(api.list(PODS, "default", labels="app=web")) == ["a"]
    assert names(api.list(PODS, "default", labels="app!=web")) == ["b"]
    assert names(api.list(PODS, "default", fields="metadata.name=b")) == ["b"]
    found = api.list(PODS).items[0]
    assert (found["apiVersion"], found["kind"]) == ("v1", "Pod")


def test_an_update_of_an_old_version_conflicts(api: Api) -> None:
    first = api.create(CONFIGMAPS, config("a", x="1"))
    second = api.update(CONFIGMAPS, {**first, "data": {"x": "2"}})
    assert version(second) > version(first)
    with pytest.raises(Conflict):
        api.update(CONFIGMAPS, {**first, "data": {"x": "3"}})
    assert api.get(CONFIGMAPS, "a", "default")["data"] == {"x": "2"}


def test_an_update_that_changes_nothing_takes_no_version(api: Api) -> None:
    first = api.create(CONFIGMAPS, config("a", x="1"))
    assert version(api.update(CONFIGMAPS, first)) == version(first)
    patched = api.patch(CONFIGMAPS, "a", "default", {"data": {"x": "1"}})
    assert version(patched) == version(first)


def test_a_merge_patch_changes_adds_and_removes(api: Api) -> None:
    api.create(CONFIGMAPS, config("a", x="1", y="2"))
    patched = api.patch(CONFIGMAPS, "a", "default", {"data": {"x": None, "z": "3"}})
    assert patched["data"] == {"y": "2", "z": "3"}


def test_status_and_the_rest_are_written_apart_and_only_the_spec_counts(api: Api) -> None:
    made = api.create(DEPLOYMENTS, deployment(1))
    assert made["metadata"]["generation"] == 1
    spec = {**made["spec"], "replicas": 5}
    shown = api.update_status(DEPLOYMENTS, {**made, "spec": spec, "status": {"replicas": 1}})
    assert (shown["spec"]["replicas"], shown["status"]["replicas"]) == (1, 1)
    assert shown["metadata"]["generation"] == 1
    grown = api.update(DEPLOYMENTS, {**shown, "spec": spec, "status": {"replicas": 9}})
    assert (grown["spec"]["replicas"], grown["status"]["replicas"]) == (5, 1)
    assert grown["metadata"]["generation"] == 2
    with pytest.raises(Conflict):
        api.update_status(DEPLOYMENTS, {**made, "status": {"replicas": 3}})


def test_deleting_by_uid_spares_a_namesake(api: Api) -> None:
    made = api.create(CONFIGMAPS, config("a"))
    with pytest.raises(Conflict):
        api.delete(CONFIGMAPS, "a", "default", uid="another")
    api.delete(CONFIGMAPS, "a", "default", uid=made["metadata"]["uid"])
    with pytest.raises(NotFound):
        api.get(CONFIGMAPS, "a", "default")


def test_a_finalizer_holds_a_deleted_object(api: Api) -> None:
    held = config("a")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    api.create(CONFIGMAPS, held)
    api.delete(CONFIGMAPS, "a", "default")
    assert api.get(CONFIGMAPS, "a", "default")["metadata"]["deletionTimestamp"]
    api.patch(CONFIGMAPS, "a", "default", {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        api.get(CONFIGMAPS, "a", "default")


@pytest.mark.parametrize(
    ("propagation", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
def test_some_deletions_wait_for_the_garbage_collector(
    api: Api, propagation: str, finalizer: str
) -> None:
    api.create(DEPLOYMENTS, deployment(1))
    api.delete(DEPLOYMENTS, "web", "default", propagation=propagation)
    assert api.get(DEPLOYMENTS, "web", "default")["metadata"]["finalizers"] == [finalizer]


def test_a_binding_places_a_pod_once_and_brings_its_annotations(api: Api) -> None:
    api.create(PODS, pod("a"))
    api.bind("default", "a", "node1", {"labnet.dev/pod-ip": "10.244.1.10"})
    bound = api.get(PODS, "a", "default")
    assert bound["spec"]["nodeName"] == "node1"
    assert bound["metadata"]["annotations"]["labnet.dev/pod-ip"] == "10.244.1.10"
    with pytest.raises(Conflict):
        api.bind("default", "a", "node2")
    assert names(api.list(PODS, fields="spec.nodeName=node1")) == ["a"]
    assert names(api.list(PODS, fields="spec.nodeName=")) == []


def test_a_pod_on_a_node_waits_for_its_kubelet_others_go_at_once(api: Api) -> None:
    for name in ("placed", "unplaced"):
        api.create(PODS, pod(name))
    api.bind("default", "placed", "node1")
    for name in ("placed", "unplaced"):
        api.delete(PODS, name, "default")
    [waiting] = api.list(PODS).items
    assert waiting["metadata"]["name"] == "placed"
    assert waiting["metadata"]["deletionGracePeriodSeconds"] == 30
    api.delete(PODS, "placed", "default", grace_seconds=0)
    assert api.list(PODS).items == ()


def test_a_collection_is_deleted_in_its_namespace(api: Api) -> None:
    api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    for namespace in ("default", "shop"):
        api.create(CONFIGMAPS, config("a", namespace))
    api.delete_collection(CONFIGMAPS, "shop")
    assert [o["metadata"]["namespace"] for o in api.list(CONFIGMAPS).items] == ["default"]


def test_a_dying_namespace_takes_nothing_new_and_goes_when_finalized(api: Api) -> None:
    api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    api.delete(NAMESPACES, "shop")
    dying = api.get(NAMESPACES, "shop")
    assert dying["status"]["phase"] == "Terminating"
    with pytest.raises(Refused, match="being terminated"):
        api.create(CONFIGMAPS, config("a", "shop"))
    spec = {**dying["spec"], "finalizers": []}
    api.update(NAMESPACES, {**dying, "spec": spec}, "finalize")
    with pytest.raises(NotFound):
        api.get(NAMESPACES, "shop")


def test_a_namespace_that_is_gone_takes_nothing_any_more(api: Api) -> None:
    api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    api.delete(NAMESPACES, "shop")
    dying = api.get(NAMESPACES, "shop")
    api.update(NAMESPACES, {**dying, "spec": {"finalizers": []}}, "finalize")

    with pytest.raises(NotFound, match='namespaces "shop" not found'):
        api.create(CONFIGMAPS, config("a", "shop"))


def test_cluster_wide_objects_have_no_namespace(api: Api) -> None:
    made = api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"}})
    assert "namespace" not in made["metadata"]
    assert api.get(NODES, "node1")["metadata"]["uid"] == made["metadata"]["uid"]


def watched(api: Api, since: str, wanted: int, **selectors: str) -> list[tuple[str, str, int]]:
    """Return type, name and version of the next ``wanted`` events of pods."""
    found: list[tuple[str, str, int]] = []
    with api.watch(PODS, version=since, **selectors) as events:
        for event in events:
            if event.type != "BOOKMARK":
                name = event.object["metadata"]["name"]
                found.append((event.type, name, version(event.object)))
            if len(found) == wanted:
                return found
    return found


def test_a_watch_goes_on_from_a_list(api: Api) -> None:
    api.create(PODS, pod("before"))
    since = api.list(PODS).version
    created = api.create(PODS, pod("a"))
    changed = api.patch(PODS, "a", "default", {"metadata": {"labels": {"x": "y"}}})
    api.delete(PODS, "a", "default", grace_seconds=0)
    events = watched(api, since, 3)
    assert events[:2] == [("ADDED", "a", version(created)), ("MODIFIED", "a", version(changed))]
    assert events[2][:2] == ("DELETED", "a")
    assert events[2][2] > version(changed)


def test_a_watch_with_a_selector_tells_who_comes_and_goes(api: Api) -> None:
    since = api.list(PODS).version
    api.create(PODS, pod("a", app="web"))
    api.patch(PODS, "a", "default", {"metadata": {"labels": {"app": "db"}}})
    api.patch(PODS, "a", "default", {"metadata": {"labels": {"app": "web"}}})
    kinds = [kind for kind, _, _ in watched(api, since, 3, labels="app=web")]
    assert kinds == ["ADDED", "DELETED", "ADDED"]


def test_a_watch_waits_and_ends_when_it_is_left(api: Api) -> None:
    watch = api.watch(PODS, version=api.list(PODS).version)
    got: list[str] = []

    def read() -> None:
        got.extend(e.object["metadata"]["name"] for e in watch.__enter__() if e.type == "ADDED")

    reader = threading.Thread(target=read)
    reader.start()
    api.create(PODS, pod("a"))
    eventually(lambda: got == ["a"])
    watch.__exit__(None, None, None)
    reader.join(5)
    assert not reader.is_alive()


def test_services_and_deployments_as_controllers_write_them_are_taken(api: Api) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "protocol": "TCP"}]},
    }
    assert api.create(SERVICES, service)["spec"]["selector"] == {"app": "web"}
