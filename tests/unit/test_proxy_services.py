"""From Service and EndpointSlice objects to portals."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from labnet.proxy.model import Endpoint, Portal
from labnet.proxy.services import portals, service_ports

Json = dict[str, Any]


def service(**spec: Any) -> Json:
    ports = spec.pop("ports", [{"port": 80}])
    return {
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"clusterIP": "10.96.0.1", "ports": ports, **spec},
    }


def endpoint(address: str, node: str = "node1", **conditions: bool | None) -> Json:
    return {"addresses": [address], "nodeName": node, "conditions": conditions}


def endpoint_slice(*endpoints: Json, name: str = "web", **fields: Any) -> Json:
    labels = {"kubernetes.io/service-name": name}
    return {
        "metadata": {"namespace": "shop", "name": f"{name}-x", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"port": 8080}],
        "endpoints": list(endpoints),
        **fields,
    }


def only(spec: Json, *slices: Json, node: str = "node1") -> Portal:
    (found,) = portals([spec], slices, node)
    return found


def addresses(endpoints: tuple[Endpoint, ...]) -> list[str]:
    return [str(e.address) for e in endpoints]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"clusterIP": "None"}, id="headless"),
        pytest.param({"clusterIP": ""}, id="no address yet"),
        pytest.param({"clusterIP": "fd00::1"}, id="IPv6 only"),
        pytest.param({"type": "ExternalName", "externalName": "example.com"}, id="ExternalName"),
    ],
)
def test_these_services_have_no_portal(spec: Json) -> None:
    assert service_ports(service(**spec)) == ()


def test_another_proxys_service_is_left_to_it() -> None:
    theirs = service()
    theirs["metadata"]["labels"] = {"service.kubernetes.io/service-proxy-name": "theirs"}

    assert service_ports(theirs) == ()


def test_only_ready_endpoints_get_traffic() -> None:
    found = only(
        service(),
        endpoint_slice(
            endpoint("10.244.1.3", ready=True),
            endpoint("10.244.1.2"),  # no condition at all means ready
            endpoint("10.244.1.4", ready=False),
            endpoint("10.244.1.5", ready=False, serving=True, terminating=True),
        ),
    )

    assert addresses(found.cluster) == ["10.244.1.2", "10.244.1.3"]


def test_without_a_ready_one_those_that_end_but_serve_get_it() -> None:
    found = only(
        service(),
        endpoint_slice(
            endpoint("10.244.1.4", ready=False),
            endpoint("10.244.1.5", ready=False, serving=True, terminating=True),
            endpoint("10.244.1.6", ready=False, serving=False, terminating=True),
        ),
    )

    assert addresses(found.cluster) == ["10.244.1.5"]


def test_endpoints_of_all_slices_count_once_and_in_order() -> None:
    found = only(
        service(),
        endpoint_slice(endpoint("10.244.1.10"), endpoint("10.244.1.9")),
        endpoint_slice(endpoint("10.244.1.10")),
        endpoint_slice(endpoint("10.244.1.1"), name="other"),
        endpoint_slice(endpoint("fd00::1"), addressType="IPv6"),
    )

    assert addresses(found.cluster) == ["10.244.1.9", "10.244.1.10"]


def test_a_port_without_number_makes_no_endpoint() -> None:
    """A named targetPort that a pod does not have (k8s#109627)."""
    found = only(service(), endpoint_slice(endpoint("10.244.1.1"), ports=[{"name": ""}]))

    assert not found.exists


def test_ports_find_their_endpoints_by_name_and_protocol() -> None:
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    slice_ports = [{"name": "dns", "port": 5353, "protocol": "UDP"}]
    found = portals(
        [service(ports=ports)], [endpoint_slice(endpoint("10.244.1.1"), ports=slice_ports)], "n"
    )

    assert [(p.port.port_name, p.exists) for p in found] == [("dns", True), ("dns-tcp", False)]
    assert found[0].cluster == (Endpoint(IPv4Address("10.244.1.1"), 5353),)


@pytest.mark.parametrize(
    ("policies", "internal", "external"),
    [
        pytest.param({}, "all", "all", id="Cluster"),
        pytest.param({"internalTrafficPolicy": "Local"}, "here", "all", id="internal Local"),
        pytest.param({"externalTrafficPolicy": "Local"}, "all", "here", id="external Local"),
    ],
)
def test_a_local_policy_keeps_traffic_on_the_node(
    policies: Json, internal: str, external: str
) -> None:
    sets = {"all": ["10.244.1.1", "10.244.2.1"], "here": ["10.244.1.1"]}
    found = only(
        service(ports=[{"port": 80, "nodePort": 30080}], **policies),
        endpoint_slice(endpoint("10.244.1.1"), endpoint("10.244.2.1", node="node2")),
    )

    assert addresses(found.internal) == sets[internal]
    assert addresses(found.external) == sets[external]


@pytest.mark.parametrize(
    ("affinity", "seconds"),
    [
        ({}, 0),
        ({"sessionAffinity": "None"}, 0),
        ({"sessionAffinity": "ClientIP"}, 10800),
        (
            {
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
            },
            60,
        ),
    ],
)
def test_session_affinity_lasts(affinity: Json, seconds: int) -> None:
    assert only(service(**affinity)).port.affinity_seconds == seconds


def test_addresses_from_outside_are_taken_over() -> None:
    spec = service(
        externalIPs=["203.0.113.1", "fd00::1"],
        loadBalancerSourceRanges=[" 192.0.2.0/24", "fd00::/64"],
    )
    spec["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}, {"hostname": "x"}]}}
    port = only(spec).port

    assert port.external_ips == (IPv4Address("203.0.113.1"),)
    assert port.load_balancer_ips == (IPv4Address("203.0.113.9"),)
    assert port.source_ranges == (IPv4Network("192.0.2.0/24"),)


def test_a_range_that_is_everybody_is_no_limit() -> None:
    ranges = ["192.0.2.0/24", "0.0.0.0/0"]

    assert only(service(loadBalancerSourceRanges=ranges)).port.source_ranges == ()
