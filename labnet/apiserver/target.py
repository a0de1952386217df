"""What a path names: which resource, in which namespace, which object, which part of it.

Paths of the Kubernetes API have one shape, ``/api/v1`` or ``/apis/GROUP/VERSION`` and
then ``[namespaces/NAMESPACE/]PLURAL[/NAME[/SUBRESOURCE]]``. One ambiguity is settled by
hand: ``namespaces/web/status`` is the status of the namespace *web*, not a resource
called *status* inside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from labnet.api.resources import Resource, find
from labnet.api.status import no_such_path

_OF_A_NAMESPACE = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about; empty where the path does not go that deep."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> str:
        """The store's key of the object named."""
        return self.resource.key(self.namespace, self.name)

    @property
    def plural(self) -> str:
        """The resource as messages name it: ``pods`` or ``pods/log``."""
        below = f"/{self.subresource}" if self.subresource else ""
        return f"{self.resource.plural}{below}"


def parse(group: str, version: str, path: str) -> Target:
    """Return what ``path`` names below its group version. Raises ApiError 404."""
    parts = path.strip("/").split("/")
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in _OF_A_NAMESPACE:
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = (*parts, "", "")[:3]
    resource = find(group, version, plural)
    if resource is None or len(parts) > 3 or "" in parts:
        raise no_such_path()
    if subresource and resource.subresource(subresource) is None:
        raise no_such_path()
    if bool(namespace) != resource.namespaced and (namespace or name):
        raise no_such_path()
    return Target(resource, namespace, name, subresource)
