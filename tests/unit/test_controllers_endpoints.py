"""What is behind a Service: Endpoints and EndpointSlices from its pods."""

from __future__ import annotations

from typing import Any

import pytest

from labnet.client.kinds import ENDPOINT_SLICES
from labnet.controllers import endpoints, endpointslice
from labnet.controllers.writes import Create, Outcome, Remove, Update

Object = dict[str, Any]


def service(**spec: Any) -> Object:
    whole = {"selector": {"run": "web"}, "ports": [{"port": 80, "protocol": "TCP"}], **spec}
    metadata = {"name": "web", "namespace": "default", "uid": "svc", "labels": {"run": "web"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": whole}


def pod(
    name: str,
    ip: str,
    *,
    ready: bool = True,
    phase: str = "Running",
    ending: bool = False,
    **spec: Any,
) -> Object:
    metadata: Object = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "labels": {"run": "web"},
    }
    if ending:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"phase": phase, "podIP": ip, "conditions": conditions}
    return {"metadata": metadata, "spec": {"nodeName": "node1", **spec}, "status": status}


def named_port(number: int) -> Object:
    return {"containers": [{"ports": [{"name": "http", "containerPort": number}]}]}


def subsets(of: Object, *pods: Object) -> list[Object]:
    [write] = endpoints.reconcile(of, pods, None).writes
    assert isinstance(write, Create)
    found: list[Object] = write.object.get("subsets", [])
    return found


def look(of: Object, pods: list[Object], *slices: Object) -> Outcome:
    return endpointslice.reconcile(endpointslice.Snapshot(of, tuple(pods), slices))


def applied(outcome: Outcome, *slices: Object) -> list[Object]:
    """The slices there are after the writes, with names and versions of their own."""
    left = {s["metadata"]["name"]: s for s in slices}
    for number, write in enumerate(outcome.writes):
        match write:
            case Create(_, obj):
                name = f"new{len(left)}{number}"
                left[name] = {**obj, "metadata": {**obj["metadata"], "name": name, "uid": name}}
            case Update(_, obj):
                left[obj["metadata"]["name"]] = obj
            case Remove(name=name):
                del left[name]
    return list(left.values())


def addresses(slice_: Object) -> list[str]:
    return [e["addresses"][0] for e in slice_["endpoints"]]


def test_ready_and_unready_pods_stand_apart_in_the_order_of_their_addresses() -> None:
    [subset] = subsets(
        service(),
        pod("b", "10.244.2.10"),
        pod("a", "10.244.1.10"),
        pod("c", "10.244.1.9", ready=False),
    )
    assert [a["ip"] for a in subset["addresses"]] == ["10.244.1.10", "10.244.2.10"]
    assert [a["ip"] for a in subset["notReadyAddresses"]] == ["10.244.1.9"]
    assert subset["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert subset["addresses"][0]["targetRef"] == {
        "kind": "Pod",
        "namespace": "default",
        "name": "a",
        "uid": "a",
    }


@pytest.mark.parametrize(
    "left_out",
    [
        pod("a", ""),
        pod("a", "10.244.1.1", phase="Succeeded"),
        pod("a", "10.244.1.1", ending=True),
        pod("a", "10.244.1.1") | {"metadata": {"name": "a", "namespace": "default", "uid": "a"}},
    ],
    ids=["no address yet", "ended", "being deleted", "not selected"],
)
def test_some_pods_are_in_no_endpoints(left_out: Object) -> None:
    assert subsets(service(), left_out) == []


def test_publish_not_ready_addresses_means_everything_is_ready() -> None:
    of = service(publishNotReadyAddresses=True)
    pods = [pod("a", "10.244.1.1", ready=False), pod("b", "10.244.1.2", ending=True)]
    [subset] = subsets(of, *pods)
    assert [a["ip"] for a in subset["addresses"]] == ["10.244.1.1", "10.244.1.2"]
    [slice_] = applied(look(of, pods))
    assert [e["conditions"]["ready"] for e in slice_["endpoints"]] == [True, True]


def test_a_named_target_port_is_each_pods_own() -> None:
    of = service(ports=[{"name": "web", "port": 80, "targetPort": "http"}])
    pods = [pod("a", "10.244.1.1", **named_port(8080)), pod("b", "10.244.1.2", **named_port(9090))]
    assert [s["ports"][0]["port"] for s in subsets(of, *pods)] == [8080, 9090]
    slices = applied(look(of, pods))
    assert sorted((s["ports"][0]["port"], addresses(s)) for s in slices) == [
        (8080, ["10.244.1.1"]),
        (9090, ["10.244.1.2"]),
    ]


def test_a_pod_without_the_named_port_is_no_endpoint() -> None:
    of = service(ports=[{"name": "web", "port": 80, "targetPort": "http"}])
    assert subsets(of, pod("a", "10.244.1.1", containers=[])) == []


def test_without_a_selector_nothing_is_touched() -> None:
    bare = service(selector=None)
    assert endpoints.reconcile(bare, [pod("a", "10.244.1.1")], None).writes == ()
    assert look(bare, [pod("a", "10.244.1.1")]).writes == ()


def test_endpoints_second_pass_does_nothing() -> None:
    [write] = endpoints.reconcile(service(), [pod("a", "10.244.1.1")], None).writes
    assert isinstance(write, Create)
    assert endpoints.reconcile(service(), [pod("a", "10.244.1.1")], write.object).writes == ()


def test_the_last_pod_leaves_empty_endpoints() -> None:
    [write] = endpoints.reconcile(service(), [pod("a", "10.244.1.1")], None).writes
    assert isinstance(write, Create)
    [update] = endpoints.reconcile(service(), [], write.object).writes
    assert isinstance(update, Update)
    assert "subsets" not in update.object


def test_a_slice_says_whose_it_is_and_how_each_pod_is() -> None:
    pods = [
        pod("a", "10.244.1.1"),
        pod("b", "10.244.1.2", ready=False),
        pod("c", "10.244.1.3", ending=True),
    ]
    [slice_] = applied(look(service(), pods))
    labels = slice_["metadata"]["labels"]
    assert labels["kubernetes.io/service-name"] == "web"
    assert labels["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io"
    assert slice_["metadata"]["generateName"] == "web-"
    assert slice_["addressType"] == "IPv4"
    conditions = [tuple(e["conditions"].values()) for e in slice_["endpoints"]]
    assert conditions == [(True, True, False), (False, False, False), (False, True, True)]


def test_slices_second_pass_does_nothing() -> None:
    pods = [pod("a", "10.244.1.1"), pod("b", "10.244.1.2")]
    slices = applied(look(service(), pods))
    assert look(service(), pods, *slices).writes == ()
    empty = applied(look(service(), []))
    assert look(service(), [], *empty).writes == ()


def test_what_the_server_fills_in_is_not_taken_for_a_change() -> None:
    pods = [pod("a", "10.244.1.1")]
    [slice_] = applied(look(service(), pods))
    slice_["ports"] = [{"port": 80}]
    slice_["endpoints"][0]["zone"] = "z"
    assert look(service(), pods, slice_).writes == ()


def test_a_hundred_endpoints_fill_a_slice_and_one_more_opens_the_next() -> None:
    pods = [pod(f"p{i}", f"10.244.{i // 200}.{i % 200 + 1}") for i in range(101)]
    slices = applied(look(service(), pods))
    assert [len(s["endpoints"]) for s in slices] == [100, 1]


def test_an_endpoint_stays_in_its_slice_and_new_ones_fill_the_gap() -> None:
    pods = [pod(f"p{i}", f"10.244.{i // 200}.{i % 200 + 1}") for i in range(150)]
    slices = applied(look(service(), pods))
    fewer = [p for p in pods if p["metadata"]["name"] not in ("p3", "p7")]
    outcome = look(service(), [*fewer, pod("new", "10.244.9.9")], *slices)
    [write] = outcome.writes
    assert isinstance(write, Update)
    assert len(write.object["endpoints"]) == 99
    assert "10.244.9.9" in addresses(write.object)


def test_a_slice_that_runs_empty_is_removed_unless_it_is_the_last() -> None:
    pods = [pod(f"p{i}", f"10.244.{i // 200}.{i % 200 + 1}") for i in range(101)]
    slices = applied(look(service(), pods))
    outcome = look(service(), pods[:100], *slices)
    assert [type(w) for w in outcome.writes] == [Remove]
    [last] = applied(look(service(), [], *slices), *slices)
    assert last["endpoints"] == []


def test_the_placeholder_of_an_empty_service_is_rewritten_not_replaced() -> None:
    empty = applied(look(service(), []))
    [write] = look(service(), [pod("a", "10.244.1.1")], *empty).writes
    assert isinstance(write, Update)
    assert write.resource == ENDPOINT_SLICES
    assert addresses(write.object) == ["10.244.1.1"]
