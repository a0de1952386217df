"""What a loop may ask of the API server, and how a refusal reaches it.

Objects are JSON dicts as they came. A refusal is an error of ``labnet.errors``:
``NotFound`` (404), ``AlreadyExists`` and ``Conflict`` (409, told apart by the Status'
reason), ``Unavailable`` (no connection, 429, 5xx), ``Expired`` (410: list again) and
``Refused`` for the rest (400, 403, 422 …), always with the server's own message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from labnet.api.meta import Object
from labnet.api.patch_types import MERGE_PATCH
from labnet.api.resource import Resource
from labnet.errors import AlreadyExists, Conflict, LabnetError, NotFound, Unavailable


class Expired(LabnetError):
    """The resource version asked for is no longer kept: list again and go on from there."""


class Refused(LabnetError):
    """The API server says no; asking again will not help."""

    def __init__(self, message: str, *, code: int, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Listed:
    """The answer to a list: its objects, and the version to watch from."""

    items: tuple[Object, ...]
    version: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Object


class Api(Protocol):
    """The API server. ``namespace`` "" means all of them, or an object that has none."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """Return one object, or raise ``NotFound``."""

    def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed:
        """Return the objects that the two selectors mean."""

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        version: str,
        labels: str = "",
        fields: str = "",
    ) -> AbstractContextManager[Iterator[WatchEvent]]:
        """Yield what happens after ``version``, until the server ends the stream.

        Raises ``Expired`` and ``Unavailable``. Leaving the context from another thread
        ends the iterator.
        """

    def create(self, resource: Resource, obj: Object) -> Object:
        """Create ``obj`` in the namespace it names; return it as the server has it."""

    def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """Replace ``obj``; ``Conflict`` unless its resourceVersion is the current one."""

    def update_status(self, resource: Resource, obj: Object) -> Object:
        """Replace only the status of ``obj``; ``Conflict`` as for ``update``."""

    def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Any,
        *,
        form: str = MERGE_PATCH,
        subresource: str = "",
    ) -> Object:
        """Change an object by a patch; ``form`` is its media type."""

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        grace_seconds: int | None = None,
        uid: str = "",
        propagation: str = "Background",
    ) -> Object:
        """Delete an object; with ``uid`` only that very one (else ``Conflict``)."""

    def delete_collection(self, resource: Resource, namespace: str) -> None:
        """Delete every object of one kind in ``namespace``."""

    def bind(
        self, namespace: str, pod: str, node: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Put a pod on a node; the annotations are copied onto the pod."""


def error_of(code: int, status: Object) -> LabnetError:
    """Return the error that a Status document with this HTTP code stands for."""
    message = status.get("message") or f"the API server answered {code}"
    reason = status.get("reason", "")
    if code == 404:
        return NotFound(message)
    if code == 409:
        return AlreadyExists(message) if reason == "AlreadyExists" else Conflict(message)
    if code == 410:
        return Expired(message)
    if code == 429 or code >= 500:
        return Unavailable(message)
    return Refused(message, code=code, reason=reason)


def path_of(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the URL's path of a collection, an object or a subresource."""
    root = f"/apis/{resource.group}" if resource.group else "/api"
    scope = f"/namespaces/{namespace}" if resource.namespaced and namespace else ""
    below = "".join(f"/{part}" for part in (name, subresource) if part)
    return f"{root}/{resource.version}{scope}/{resource.plural}{below}"


def binding(namespace: str, pod: str, node: str, annotations: Mapping[str, str] | None) -> Object:
    """Return the Binding that puts ``pod`` on ``node``."""
    metadata: Object = {"name": pod, "namespace": namespace}
    if annotations:
        metadata["annotations"] = dict(annotations)
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def delete_options(grace_seconds: int | None, uid: str, propagation: str) -> Object:
    """Return the DeleteOptions of a DELETE."""
    options: Object = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": propagation,
    }
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if uid:
        options["preconditions"] = {"uid": uid}
    return options
