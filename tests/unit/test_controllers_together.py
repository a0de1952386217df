"""The controller manager and the scheduler on an in-memory API, with kubelets that only
say "ready": what a person sees who types kubectl.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from labnet.client.fake import FakeApi
from labnet.client.informer import Informer
from labnet.client.kinds import (
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from labnet.client.views import is_deleting, key_of
from labnet.controllers.assembly import Controllers
from labnet.errors import LabnetError, NotFound
from labnet.scheduler.pins import Pins
from labnet.scheduler.run import Scheduler
from tests.conditions import eventually

Object = dict[str, Any]


class Kubelets:
    """Every pod on a node is ready at once, and gone as soon as it is to be."""

    def __init__(self, api: FakeApi) -> None:
        self._api = api
        self._addresses = iter(f"10.244.{i // 250}.{i % 250 + 1}" for i in range(10_000))
        self.unready = ""  # pods whose image is called this never get ready

    def look(self, old: Object | None, new: Object | None) -> None:
        if new is None or not new["spec"].get("nodeName"):
            return
        namespace, name = key_of(new)
        try:
            if is_deleting(new):
                self._api.delete(PODS, name, namespace, grace_seconds=0)
            elif new["status"]["phase"] == "Pending":
                self._api.patch(PODS, name, namespace, self._started(new), subresource="status")
        except LabnetError:
            return

    def _started(self, pod: Object) -> Object:
        image = pod["spec"]["containers"][0]["image"]
        ready = "False" if self.unready and image == self.unready else "True"
        conditions = [{"type": "Ready", "status": ready}]
        address = next(self._addresses)
        return {"status": {"phase": "Running", "podIP": address, "conditions": conditions}}


class Cluster:
    """What a test does to it, and sees of it."""

    def __init__(self, api: FakeApi, kubelets: Kubelets) -> None:
        self.api = api
        self.kubelets = kubelets

    def deploy(self, replicas: int, image: str = "nginx", **spec: object) -> None:
        self.api.create(DEPLOYMENTS, deployment(replicas, image, **spec))

    def change(self, patch: Object) -> None:
        self.api.patch(DEPLOYMENTS, "web", "default", {"spec": patch})

    def pods(self) -> list[Object]:
        return [p for p in self.api.list(PODS, "default").items if not is_deleting(p)]

    def images(self) -> list[str]:
        return sorted(p["spec"]["containers"][0]["image"] for p in self.pods())

    def rolled_out(self) -> bool:
        """What ``kubectl rollout status`` waits for."""
        found = self.api.get(DEPLOYMENTS, "web", "default")
        status, wanted = found.get("status") or {}, found["spec"]["replicas"]
        return bool(
            status.get("observedGeneration") == found["metadata"]["generation"]
            and status.get("updatedReplicas", 0) == wanted
            and status.get("replicas", 0) == wanted
            and status.get("availableReplicas", 0) == wanted
        )

    def endpoints(self) -> list[str]:
        try:
            found = self.api.get(ENDPOINTS, "web", "default")
        except NotFound:
            return []
        subsets = found.get("subsets") or [{}]
        return [a["ip"] for s in subsets for a in s.get("addresses") or ()]


def deployment(replicas: int, image: str, **spec: object) -> Object:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": image}]},
    }
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
            **spec,
        },
    }


SERVICE: Object = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "protocol": "TCP"}]},
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    api = FakeApi()
    api.create(NAMESPACES, {"metadata": {"name": "default"}})
    for name in ("node1", "node2"):
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        api.create(NODES, {"metadata": {"name": name}, "spec": {}, "status": ready})
    kubelets = Kubelets(api)
    stop = threading.Event()
    runs: list[Callable[[threading.Event], None]] = [
        Controllers(api, 40.0).run,
        Scheduler(api, Pins()).run,
    ]
    threads = [threading.Thread(target=run, args=(stop,)) for run in runs]
    with Informer(api, PODS, kubelets.look):
        for thread in threads:
            thread.start()
        yield Cluster(api, kubelets)
        stop.set()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()


def test_a_deployment_becomes_ready_pods_on_both_nodes_and_endpoints(cluster: Cluster) -> None:
    cluster.api.create(SERVICES, SERVICE)
    cluster.deploy(4)
    eventually(cluster.rolled_out)
    eventually(lambda: len(cluster.endpoints()) == 4)
    nodes = sorted(p["spec"]["nodeName"] for p in cluster.pods())
    assert nodes == ["node1", "node1", "node2", "node2"]
    [slice_] = cluster.api.list(ENDPOINT_SLICES, "default").items
    assert [e["addresses"][0] for e in slice_["endpoints"]] == cluster.endpoints()
    assert cluster.api.get(SERVICE_ACCOUNTS, "default", "default")


def test_once_all_is_as_wanted_nothing_is_written(cluster: Cluster) -> None:
    cluster.deploy(2)
    cluster.api.create(SERVICES, SERVICE)
    eventually(lambda: cluster.rolled_out() and len(cluster.endpoints()) == 2)
    quiet = len(cluster.api.writes)
    cluster.api.patch(
        PODS, key_of(cluster.pods()[0])[1], "default", {"metadata": {"labels": {"x": "y"}}}
    )
    cluster.api.patch(NODES, "node1", "", {"metadata": {"labels": {"x": "y"}}})
    eventually(lambda: len(cluster.api.writes) >= quiet + 2)
    by_us = [w for w in cluster.api.writes[quiet:] if w.resource not in ("pods", "nodes", "events")]
    assert by_us == []


def test_a_hundred_pods_more_are_each_created_once(cluster: Cluster) -> None:
    cluster.api.create(SERVICES, SERVICE)
    cluster.deploy(2)
    eventually(cluster.rolled_out)
    cluster.change({"replicas": 102})
    eventually(lambda: cluster.rolled_out() and len(cluster.endpoints()) == 102)
    assert len(cluster.api.list(PODS).items) == 102, "no pod was created twice"


def test_a_new_image_replaces_all_pods_and_keeps_the_old_set(cluster: Cluster) -> None:
    cluster.deploy(4, "nginx:1")
    eventually(cluster.rolled_out)
    template = {"spec": {"containers": [{"name": "web", "image": "nginx:2"}]}}
    cluster.change({"template": template})
    eventually(lambda: cluster.rolled_out() and cluster.images() == ["nginx:2"] * 4)
    sets = cluster.api.list(REPLICA_SETS).items
    assert sorted(s["spec"]["replicas"] for s in sets) == [0, 4]
    web = cluster.api.get(DEPLOYMENTS, "web", "default")
    assert web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"


def test_a_broken_image_stops_the_rollout_while_the_old_pods_serve(cluster: Cluster) -> None:
    cluster.kubelets.unready = "broken"
    cluster.deploy(4, "nginx:1")
    eventually(cluster.rolled_out)
    template = {"spec": {"containers": [{"name": "web", "image": "broken"}]}}
    cluster.change({"template": template})
    eventually(lambda: cluster.images() == ["broken"] * 2 + ["nginx:1"] * 3)
    status = cluster.api.get(DEPLOYMENTS, "web", "default")["status"]
    assert status["availableReplicas"] >= 3


def test_recreate_ends_all_old_pods_before_it_starts_new_ones(cluster: Cluster) -> None:
    cluster.deploy(3, "nginx:1", strategy={"type": "Recreate"})
    eventually(cluster.rolled_out)
    mixed: list[list[str]] = []
    template = {"spec": {"containers": [{"name": "web", "image": "nginx:2"}]}}
    cluster.change({"template": template})

    def done() -> bool:
        images = cluster.images()
        if len(set(images)) > 1:
            mixed.append(images)
        return cluster.rolled_out() and images == ["nginx:2"] * 3

    eventually(done)
    assert mixed == []


def test_a_deleted_pod_is_replaced(cluster: Cluster) -> None:
    cluster.deploy(2)
    eventually(cluster.rolled_out)
    gone = cluster.pods()[0]["metadata"]["name"]
    cluster.api.delete(PODS, gone, "default")
    eventually(
        lambda: (
            len(cluster.pods()) == 2
            and gone not in [p["metadata"]["name"] for p in cluster.pods()]
            and cluster.rolled_out()
        )
    )


def test_a_deleted_deployment_takes_everything_along(cluster: Cluster) -> None:
    cluster.deploy(3)
    eventually(cluster.rolled_out)
    cluster.api.delete(DEPLOYMENTS, "web", "default")
    eventually(
        lambda: not cluster.api.list(PODS).items and not cluster.api.list(REPLICA_SETS).items
    )


def test_deleting_in_the_foreground_ends_with_the_deployment(cluster: Cluster) -> None:
    cluster.deploy(3)
    eventually(cluster.rolled_out)
    cluster.api.delete(DEPLOYMENTS, "web", "default", propagation="Foreground")
    eventually(lambda: not cluster.api.list(DEPLOYMENTS).items)
    assert cluster.api.list(PODS).items == ()


def test_an_orphaned_replica_set_stays_and_is_adopted_again(cluster: Cluster) -> None:
    cluster.deploy(2)
    eventually(cluster.rolled_out)
    before = {p["metadata"]["uid"] for p in cluster.pods()}
    cluster.api.delete(DEPLOYMENTS, "web", "default", propagation="Orphan")
    eventually(lambda: not cluster.api.list(DEPLOYMENTS).items)
    cluster.deploy(2)
    eventually(cluster.rolled_out)
    assert {p["metadata"]["uid"] for p in cluster.pods()} == before


def test_a_deleted_namespace_is_emptied_and_gone(cluster: Cluster) -> None:
    cluster.api.create(NAMESPACES, {"metadata": {"name": "shop"}})
    made = deployment(3, "nginx")
    made["metadata"]["namespace"] = "shop"
    cluster.api.create(DEPLOYMENTS, made)
    eventually(lambda: len(cluster.api.list(PODS, "shop").items) == 3)
    cluster.api.delete(NAMESPACES, "shop")
    eventually(
        lambda: "shop" not in [n["metadata"]["name"] for n in cluster.api.list(NAMESPACES).items]
    )
    assert cluster.api.list(PODS, "shop").items == ()


def test_a_deleted_node_loses_its_pods(cluster: Cluster) -> None:
    cluster.deploy(4)
    eventually(cluster.rolled_out)
    cluster.api.delete(NODES, "node2")
    eventually(
        lambda: (
            {p["spec"].get("nodeName") for p in cluster.pods()} == {"node1"}
            and cluster.rolled_out()
        )
    )
