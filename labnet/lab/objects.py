"""Applying the scenario's objects through the API, as `kubectl apply` would.

Objects go in one after the other, in the order of the file: a Namespace stands before
what lives in it. An object that is there already (a durable lab that resumes, or the
namespaces the API server makes itself) has the scenario's fields merged into it and
keeps what the server has allotted to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from labnet.api import resources
from labnet.api.resource import Resource
from labnet.errors import AlreadyExists, LabnetError

Object = Mapping[str, Any]


class Writes(Protocol):
    """The two requests that applying takes, of :class:`labnet.client.api.Api`."""

    def create(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
        """Create ``obj`` in the namespace it names; raises ``AlreadyExists``."""

    def patch(self, resource: Resource, name: str, namespace: str, patch: Any) -> dict[str, Any]:
        """Merge ``patch`` into an object."""


def apply(api: Writes, objects: Sequence[Object]) -> None:
    """Create every object, or merge it into the one that is there."""
    for obj in map(placed, objects):
        resource = resource_of(obj)
        try:
            api.create(resource, obj)
        except AlreadyExists:
            metadata = obj["metadata"]
            api.patch(resource, metadata["name"], metadata.get("namespace", ""), obj)


def resource_of(obj: Object) -> Resource:
    """Return what the API server knows about the kind of ``obj``."""
    resource = resources.by_kind(str(obj["apiVersion"]), str(obj["kind"]))
    if resource is None:
        raise LabnetError(
            f"the API server knows no {obj['kind']} of {obj['apiVersion']}",
            hint="`labnet kubectl api-resources` lists what there is",
        )
    return resource


def placed(obj: Object) -> dict[str, Any]:
    """Return ``obj`` with the namespace it goes to: ``default`` where it names none."""
    if not resource_of(obj).namespaced:
        return dict(obj)
    return {**obj, "metadata": {"namespace": "default", **obj["metadata"]}}
