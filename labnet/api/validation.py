"""Validation: everything that is wrong with an object, at once.

The schema says what may stand where; here stands what a value may be, and what may not
change once it is set. Each check returns the problems it found, with the path of the
field and Kubernetes' own words, so that all of them reach the user in one Status.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable

from labnet.api import field, names
from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.api.status import Cause, invalid
from labnet.api.validation_network import endpoint_slice, endpoints, service, service_update
from labnet.api.validation_pod import pod, pod_update
from labnet.api.validation_workload import (
    daemon_set,
    deployment,
    job,
    replica_set,
    replication_controller,
    selector_update,
    stateful_set,
)

_ANNOTATIONS_MAX = 256 * 1024


def check_new(resource: Resource, obj: Object) -> None:
    """Refuse a new object that is not valid; ApiError 422."""
    _refuse(resource, obj, metadata(resource, obj) + _problems(resource, obj))


def check_update(resource: Resource, old: Object, new: Object) -> None:
    """Refuse an update that is not valid, or not allowed; ApiError 422."""
    found = metadata(resource, new) + _problems(resource, new)
    changed = _UPDATES.get((_family(resource), resource.kind))
    if changed is not None:
        found += changed(old, new)
    _refuse(resource, new, found)


def _refuse(resource: Resource, obj: Object, causes: list[Cause]) -> None:
    if causes:
        name = obj["metadata"].get("name") or obj["metadata"].get("generateName", "")
        raise invalid(resource.group, resource.kind, name, causes)


def _family(resource: Resource) -> str:
    """extensions/v1beta1 kinds keep the rules of apps/v1."""
    return "apps" if resource.group == "extensions" else resource.group


def _problems(resource: Resource, obj: Object) -> list[Cause]:
    check = _CHECKS.get((_family(resource), resource.kind))
    return check(obj) if check is not None else []


def metadata(resource: Resource, obj: Object) -> list[Cause]:
    """Return what is wrong with an object's name, labels and annotations."""
    meta = obj["metadata"]
    found = _name(resource, meta)
    found += labels("metadata.labels", meta.get("labels"))
    annotations = meta.get("annotations") or {}
    for key in annotations:
        found += names.problems("metadata.annotations", key, names.qualified(key.lower()))
    if sum(len(k) + len(v) for k, v in annotations.items()) > _ANNOTATIONS_MAX:
        rule = f"may not be more than {_ANNOTATIONS_MAX} bytes"
        found.append(Cause("FieldValueTooLong", f"Too long: {rule}", "metadata.annotations"))
    for finalizer in meta.get("finalizers") or ():
        found += names.problems("metadata.finalizers", finalizer, names.qualified(finalizer))
    return found


def _name(resource: Resource, meta: Object) -> list[Cause]:
    name = meta.get("name", "")
    if not name:
        return [field.required("metadata.name", "name or generateName is required")]
    rules = _NAMES.get((resource.group, resource.kind), names.subdomain)
    found = names.problems("metadata.name", name, rules(name))
    if resource.namespaced:
        namespace = meta.get("namespace", "")
        found += names.problems("metadata.namespace", namespace, names.label(namespace))
    return found


def labels(path: str, found_labels: Object | None) -> list[Cause]:
    """Return what is wrong with a map of labels."""
    found: list[Cause] = []
    for key, value in (found_labels or {}).items():
        found += names.problems(path, key, names.qualified(key))
        found += names.problems(path, value, names.label_value(value))
    return found


def _config_map(obj: Object) -> list[Cause]:
    found: list[Cause] = []
    for part in ("data", "binaryData"):
        for key in obj.get(part) or {}:
            found += names.problems(f"{part}[{key}]", key, names.config_key(key))
    for key in (obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys():
        found.append(field.invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    return found


def _secret(obj: Object) -> list[Cause]:
    found: list[Cause] = []
    for key, value in (obj.get("data") or {}).items():
        found += names.problems(f"data[{key}]", key, names.config_key(key))
        try:
            b64decode(value, validate=True)
        except ValueError:
            found.append(field.invalid(f"data[{key}]", value, "illegal base64 data"))
    return found


def _frozen(old: Object, new: Object) -> list[Cause]:
    """A ConfigMap or Secret that said ``immutable`` stays as it is."""
    if not old.get("immutable"):
        return []
    parts = ("data", "binaryData", "immutable")
    return [
        field.forbidden(part, "field is immutable when `immutable` is set")
        for part in parts
        if old.get(part) != new.get(part)
    ]


def _node_update(old: Object, new: Object) -> list[Cause]:
    before = (old.get("spec") or {}).get("podCIDR")
    if before and before != (new.get("spec") or {}).get("podCIDR"):
        return [
            field.forbidden(
                "spec.podCIDR", 'node updates may not change podCIDR except from "" to valid'
            )
        ]
    return []


_NAMES: dict[tuple[str, str], Callable[[str], list[str]]] = {
    ("", "Namespace"): names.label,
    ("", "Service"): names.label_1035,
}
_CHECKS: dict[tuple[str, str], Callable[[Object], list[Cause]]] = {
    ("", "ConfigMap"): _config_map,
    ("", "Endpoints"): endpoints,
    ("", "Pod"): pod,
    ("", "ReplicationController"): replication_controller,
    ("", "Secret"): _secret,
    ("", "Service"): service,
    ("apps", "DaemonSet"): daemon_set,
    ("apps", "Deployment"): deployment,
    ("apps", "ReplicaSet"): replica_set,
    ("apps", "StatefulSet"): stateful_set,
    ("batch", "Job"): job,
    ("discovery.k8s.io", "EndpointSlice"): endpoint_slice,
}
_UPDATES: dict[tuple[str, str], Callable[[Object, Object], list[Cause]]] = {
    ("", "ConfigMap"): _frozen,
    ("", "Node"): _node_update,
    ("", "Pod"): pod_update,
    ("", "Secret"): _frozen,
    ("", "Service"): service_update,
    ("apps", "DaemonSet"): selector_update,
    ("apps", "Deployment"): selector_update,
    ("apps", "ReplicaSet"): selector_update,
    ("apps", "StatefulSet"): selector_update,
    ("batch", "Job"): selector_update,
}
