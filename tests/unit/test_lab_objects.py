"""The scenario's objects are created in order, or merged into what is there."""

from __future__ import annotations

from typing import Any

import pytest

from labnet.api.resource import Resource
from labnet.errors import AlreadyExists, LabnetError
from labnet.lab.objects import apply


class Server:
    """An API server that knows some names already."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.calls: list[tuple[str, ...]] = []

    def create(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        metadata = obj["metadata"]
        self.calls.append(("create", resource.plural, metadata.get("namespace", "")))
        if metadata["name"] in self.names:
            raise AlreadyExists("there")
        return obj

    def patch(self, resource: Resource, name: str, namespace: str, patch: Any) -> dict[str, Any]:
        self.calls.append(("patch", resource.plural, namespace))
        return {}


NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
OLD = {
    "apiVersion": "extensions/v1beta1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
}


def test_objects_go_in_in_order_and_into_their_namespaces() -> None:
    server = Server()

    apply(server, [NAMESPACE, OLD, POD])

    assert server.calls == [
        ("create", "namespaces", ""),
        ("create", "deployments", "shop"),
        ("create", "pods", "default"),
    ]


def test_what_is_there_already_gets_the_scenarios_fields() -> None:
    server = Server("shop")

    apply(server, [NAMESPACE])

    assert server.calls == [("create", "namespaces", ""), ("patch", "namespaces", "")]


def test_a_kind_that_nobody_serves_is_named() -> None:
    with pytest.raises(LabnetError, match=r"no Gadget of example\.com/v1"):
        apply(Server(), [{"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {}}])
