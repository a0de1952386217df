"""What a cluster has from the start: four namespaces, and the Service of the API itself.

Every pod finds the API under the first address of the service range, as Service
``default/kubernetes``. It has no selector: the API server writes its own Endpoints.
Everything is written only where it is absent, so a restart changes nothing but an
address that moved; and it is done over and over, so that what somebody deleted is back.
"""

from __future__ import annotations

from datetime import datetime

from labnet.api.meta import Object, metadata_of
from labnet.api.resources import find
from labnet.api.status import ApiError, no_such_path
from labnet.apiserver.target import Target
from labnet.apiserver.writing import Author, Writing

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_SERVICE = "kubernetes"
_LABELS = {"component": "apiserver", "provider": "kubernetes"}


def write(writing: Writing, first_address: str, address: str, port: int, now: datetime) -> None:
    """Write the first objects; ``address:port`` is where nodes reach the API."""
    author = Author("kube-apiserver", now)
    for name in NAMESPACES:
        labels = {"kubernetes.io/metadata.name": name}
        _ensure(
            writing, "", "v1", "namespaces", {"metadata": {"name": name, "labels": labels}}, author
        )
    _ensure(writing, "", "v1", "services", _service(first_address, port), author)
    _current(writing, "", "v1", "endpoints", _endpoints(address, port), author)
    _current(writing, "discovery.k8s.io", "v1", "endpointslices", _slice(address, port), author)


def _target(group: str, version: str, plural: str, obj: Object, *, named: bool) -> Target:
    resource = find(group, version, plural)
    if resource is None:
        raise no_such_path()
    namespace = "default" if resource.namespaced else ""
    return Target(resource, namespace, metadata_of(obj)["name"] if named else "")


def _ensure(
    writing: Writing, group: str, version: str, plural: str, obj: Object, author: Author
) -> bool:
    """Create ``obj`` if it is not there; return whether it was absent."""
    target = _target(group, version, plural, obj, named=False)
    typed = {"kind": target.resource.kind, "apiVersion": target.resource.api_version, **obj}
    try:
        writing.create(target, typed, author)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        return False
    return True


def _current(
    writing: Writing, group: str, version: str, plural: str, obj: Object, author: Author
) -> None:
    """Create ``obj``, or bring what is there up to date."""
    if not _ensure(writing, group, version, plural, obj, author):
        target = _target(group, version, plural, obj, named=True)
        writing.update(target, lambda old: {**old, **obj, "metadata": old["metadata"]}, author)


def _service(first_address: str, port: int) -> Object:
    return {
        "metadata": {"name": _SERVICE, "labels": dict(_LABELS)},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": first_address,
            "ports": [{"name": "https", "port": 443, "targetPort": port, "protocol": "TCP"}],
        },
    }


def _endpoints(address: str, port: int) -> Object:
    return {
        "metadata": {
            "name": _SERVICE,
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [
            {
                "addresses": [{"ip": address}],
                "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            }
        ],
    }


def _slice(address: str, port: int) -> Object:
    return {
        "metadata": {"name": _SERVICE, "labels": {"kubernetes.io/service-name": _SERVICE}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
