"""Cluster IPs and node ports: never the same twice, freed on delete, pins kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.api.server import RunningServer, service

_SERVICES = "/api/v1/namespaces/default/services"
_PINNED = "10.11.97.177"


def _create(api: RunningServer, name: str, **spec: Any) -> dict[str, Any]:
    answer = api.post(_SERVICES, service(name, **spec))
    assert answer.status == 201, answer.body
    created: dict[str, Any] = answer.json["spec"]
    return created


def _reserved(api: RunningServer) -> set[str]:
    page = api.store.range("/registry/ranges/")
    return {kv.key.rpartition("/")[2] for kv in page.items}


def test_a_service_gets_an_address_and_gives_it_back(api: RunningServer) -> None:
    spec = _create(api, "web")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert spec["clusterIP"] in _reserved(api)
    api.request("DELETE", f"{_SERVICES}/web")
    assert _reserved(api) == {"10.0.0.1"}


def test_services_created_at_once_never_share(api: RunningServer) -> None:
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda n: _create(api, f"s{n}", type="NodePort"), range(60)))
    assert len({spec["clusterIP"] for spec in made}) == 60
    assert len({spec["ports"][0]["nodePort"] for spec in made}) == 60


def test_of_many_who_ask_for_one_address_one_gets_it(api: RunningServer) -> None:
    def ask(n: int) -> int:
        return api.post(_SERVICES, service(f"s{n}", clusterIP="10.1.2.3")).status

    with ThreadPoolExecutor(8) as pool:
        codes = sorted(pool.map(ask, range(12)))
    assert codes == [201] + [422] * 11


def test_a_pinned_address_is_its_services_alone(api: RunningServer) -> None:
    refused = api.post(_SERVICES, service("thief", clusterIP=_PINNED))
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")
    assert _create(api, "my-nginx")["clusterIP"] == _PINNED


def test_what_cannot_be_had_is_said_in_kubernetes_words(api: RunningServer) -> None:
    _create(api, "a", clusterIP="10.1.1.1", type="NodePort", ports=[{"port": 1, "nodePort": 30001}])
    taken = api.post(_SERVICES, service("b", clusterIP="10.1.1.1")).json["message"]
    assert taken == (
        'Service "b" is invalid: spec.clusterIPs: Invalid value: ["10.1.1.1"]: '
        "failed to allocate IP 10.1.1.1: provided IP is already allocated"
    )
    outside = api.post(_SERVICES, service("b", clusterIP="192.168.0.1")).json["message"]
    assert outside.endswith(
        "the provided IP (192.168.0.1) is not in the valid range. "
        "The range of valid IPs is 10.0.0.0/12"
    )
    ports = [{"port": 1, "nodePort": 30001}]
    port = api.post(_SERVICES, service("b", type="NodePort", ports=ports)).json["message"]
    assert port == (
        'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: 30001: '
        "provided port is already allocated"
    )
    ports[0]["nodePort"] = 80
    low = api.post(_SERVICES, service("b", type="NodePort", ports=ports)).json["message"]
    assert low.endswith(
        "provided port is not in the valid range. The range of valid ports is 30000-32767"
    )


def test_a_refused_service_takes_nothing(api: RunningServer) -> None:
    _create(api, "a", type="NodePort", ports=[{"port": 1, "nodePort": 30001}])
    before = _reserved(api)
    ports = [{"port": 1, "nodePort": 30001}]
    assert api.post(_SERVICES, service("b", type="NodePort", ports=ports)).status == 422
    assert api.post(f"{_SERVICES}?dryRun=All", service("c")).status == 201
    assert _reserved(api) == before


def test_a_service_that_changes_its_type_takes_and_frees(api: RunningServer) -> None:
    address = _create(api, "web")["clusterIP"]
    kind = "application/merge-patch+json"
    path = f"{_SERVICES}/web"
    opened = api.request("PATCH", path, {"spec": {"type": "NodePort"}}, Content_Type=kind).json
    port = opened["spec"]["ports"][0]["nodePort"]
    assert {address, str(port)} <= _reserved(api)
    closed = api.request("PATCH", path, {"spec": {"type": "ClusterIP"}}, Content_Type=kind).json
    assert "nodePort" not in closed["spec"]["ports"][0]
    assert closed["spec"]["clusterIP"] == address
    assert str(port) not in _reserved(api)


def test_replacing_by_the_manifest_keeps_the_address(api: RunningServer) -> None:
    address = _create(api, "web")["clusterIP"]
    replaced = api.request("PUT", f"{_SERVICES}/web", service("web", selector={"app": "y"}))
    assert replaced.json["spec"]["clusterIP"] == address


def test_a_headless_service_takes_nothing(api: RunningServer) -> None:
    assert _create(api, "web", clusterIP="None")["clusterIP"] == "None"
    assert _reserved(api) == {"10.0.0.1"}
