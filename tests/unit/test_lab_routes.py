"""Where a forwarded connection comes out."""

from __future__ import annotations

from typing import Any

import pytest

from labnet.errors import LabnetError, NotFound, Unavailable
from labnet.lab.routes import Destination, to_pod, to_service

POD: dict[str, Any] = {
    "metadata": {"name": "web-1"},
    "spec": {
        "nodeName": "node1",
        "containers": [{"name": "web", "ports": [{"name": "http", "containerPort": 8080}]}],
    },
    "status": {"podIP": "10.244.2.3"},
}
SERVICE: dict[str, Any] = {
    "metadata": {"name": "web"},
    "spec": {
        "clusterIP": "10.11.0.1",
        "ports": [{"name": "http", "port": 80}, {"port": 53, "protocol": "UDP"}],
    },
}


@pytest.mark.parametrize(("port", "number"), [("8080", 8080), ("http", 8080), ("9999", 9999)])
def test_a_pod_is_dialled_from_its_own_node(port: str, number: int) -> None:
    assert to_pod(POD, port) == Destination("node1", "10.244.2.3", number)


def test_a_pod_without_an_address_cannot_be_reached_yet() -> None:
    with pytest.raises(Unavailable, match="has no address yet"):
        to_pod({**POD, "status": {}}, "80")


def test_an_unknown_port_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(NotFound, match="no port called 'web'") as missing:
        to_pod(POD, "web")

    assert missing.value.hint == "named ports: http"


@pytest.mark.parametrize("port", ["80", "http"])
def test_a_service_is_dialled_by_its_virtual_ip_from_a_node(port: str) -> None:
    assert to_service(SERVICE, port, "node1") == Destination("node1", "10.11.0.1", 80)


def test_a_port_the_service_has_not_is_answered_with_those_it_has() -> None:
    with pytest.raises(NotFound, match="has no port 81") as missing:
        to_service(SERVICE, "81", "node1")

    assert missing.value.hint == "it has: 80, 53"


def test_udp_and_headless_services_are_refused_with_the_reason() -> None:
    with pytest.raises(LabnetError, match="is UDP"):
        to_service(SERVICE, "53", "node1")
    headless = {**SERVICE, "spec": {**SERVICE["spec"], "clusterIP": "None"}}
    with pytest.raises(LabnetError, match="has no virtual IP"):
        to_service(headless, "80", "node1")
