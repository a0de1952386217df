"""The way of a write, from what the client sent to what is stored: one pure function each.

Objects go in and come out in the version the client speaks (``write.resource``);
``stored`` and ``shown`` turn them into and from what the store keeps. Allocation of
cluster IPs and node ports happens between ``create`` and the store, in the API server,
because only it can do so transactionally; ``validation`` accepts their absence.

An object has two authors. Users write what is wanted (``spec``), controllers what is
(``status``); a write through the one door keeps the other's part as it was.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime

from labnet.api import codec, convert, defaults, managed, services, subresources, validation
from labnet.api.apply import applied
from labnet.api.codec import Decoded, FieldValidation
from labnet.api.creation import prepare
from labnet.api.fields import leaves
from labnet.api.meta import Chooser, Object, generate_name, metadata_of, namespace_of
from labnet.api.resource import Resource
from labnet.api.status import Cause, bad_request, conflict, invalid
from labnet.clock import rfc3339

# Of an object's metadata only these are the writer's; the rest is the server's.
_WRITABLE = ("labels", "annotations", "finalizers", "ownerReferences")
_FROM_STATUS = ("labels", "annotations")


@dataclass(frozen=True, slots=True)
class Write:
    """One request to change one object: on what, by whom, when."""

    resource: Resource
    manager: str  # fieldManager, or the User-Agent up to the first "/"
    now: datetime
    chooser: Chooser
    subresource: str = ""  # "", "status", "scale"
    namespace: str = ""  # from the URL
    name: str = ""  # from the URL; "" for create


def create(write: Write, body: Object) -> Object:
    """Return the new object: defaulted, named, stamped, valid. Raises ApiError 400, 422."""
    resource, new = write.resource, deepcopy(body)
    new["kind"], new["apiVersion"] = resource.kind, resource.api_version
    namespace_of(resource, new, write.namespace)
    metadata = new["metadata"]
    if metadata.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    generate_name(metadata, write.chooser)
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"):
        metadata.pop(name, None)
    metadata["uid"] = write.chooser.uid()
    metadata["creationTimestamp"] = rfc3339(write.now)
    metadata.pop("generation", None)
    if resource.generation:
        metadata["generation"] = 1
    if resource.has_status:
        new.pop("status", None)
    defaults.apply(resource, new)
    prepare(resource, new)
    validation.check_new(resource, new)
    managed.created(new, write.manager, write.now)
    return new


def update(write: Write, old: Object, body: Object) -> Object:
    """Return what replaces ``old`` (main resource, ``status``, ``scale`` or ``finalize``).

    The very object ``old`` when nothing changes: then do not write. Raises ApiError 400,
    409 (resourceVersion or uid in ``body`` differ), 422.
    """
    _same_object(write, old, body)
    match write.subresource:
        case "scale":
            body = subresources.with_scale(old, body)
        case "status":
            body = _status_only(old, body)
        case "finalize":
            spec = {**(old.get("spec") or {}), **(body.get("spec") or {})}
            body = {**old, "spec": spec}
    new = old if body == old else _merged(write, old, body)
    if new == old:
        return old
    validation.check_update(write.resource, old, new)
    if write.subresource == "":
        managed.updated(old, new, write.manager, write.now)
    return new


def apply(
    write: Write,
    old: Object | None,
    body: bytes,
    *,
    force: bool = False,
    field_validation: FieldValidation = FieldValidation.WARN,
) -> Decoded:
    """Return what server-side apply makes of ``old``; None: it does not exist yet.

    ``body`` is YAML or JSON. The result's object is the very ``old`` when nothing
    changes. Raises ApiError 400, 409 (somebody else owns a field), 415, 422.
    """
    resource = write.resource
    config = _config(write, body, field_validation)
    me = managed.Owner(
        write.manager, "Apply", resource.api_version, rfc3339(write.now), frozenset()
    )
    if old is None:
        new = create(write, config.object)
        managed.set_owners(new, [replace(me, fields=frozenset(leaves(config.object)))])
        return Decoded(new, config.warnings)
    _same_object(write, old, config.object)
    target = applied(old, config.object, me, force=force)
    new = _merged(write, old, target)
    managed.set_owners(new, managed.owners(target))
    if new == old:
        return Decoded(old, config.warnings)
    validation.check_update(resource, old, new)
    return Decoded(new, config.warnings)


def _config(write: Write, body: bytes, field_validation: FieldValidation) -> Decoded:
    """Return what is to be applied."""
    if not write.manager:
        rule = "Required value: is required for apply patch"
        problem = Cause("FieldValueRequired", rule, "fieldManager")
        raise invalid("meta.k8s.io", "PatchOptions", "", [problem])
    if write.subresource:
        raise bad_request("server-side apply is for whole objects; patch subresources otherwise")
    resource = write.resource
    config = codec.decode(body, codec.YAML, resource.api_version, resource.kind, field_validation)
    if metadata_of(config.object).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    config.object.setdefault("metadata", {}).setdefault("name", write.name)
    return config


def _merged(write: Write, old: Object, body: Object) -> Object:
    """Return ``body`` with the parts of ``old`` that its writer has no say in."""
    resource, new = write.resource, deepcopy(body)
    new["kind"], new["apiVersion"] = resource.kind, resource.api_version
    new["metadata"] = _metadata(metadata_of(old), metadata_of(new), _WRITABLE)
    if resource.has_status and write.subresource != "status":
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    if resource.kind == "Service" and write.subresource == "":
        services.keep_allocated(old, new)
    defaults.apply(resource, new)
    if resource.generation and _wanted(new) != _wanted(old):
        new["metadata"]["generation"] = metadata_of(old).get("generation", 0) + 1
    return new


def _metadata(old: Object, new: Object, writable: tuple[str, ...]) -> Object:
    kept = {name: value for name, value in old.items() if name not in writable}
    return kept | {name: new[name] for name in writable if new.get(name)}


def _wanted(obj: Object) -> Object:
    """Return what ``generation`` counts: all but metadata and status."""
    return {k: v for k, v in obj.items() if k not in ("metadata", "status", "apiVersion")}


def _status_only(old: Object, body: Object) -> Object:
    metadata = dict(metadata_of(old))
    for name in _FROM_STATUS:
        metadata.pop(name, None)
        if metadata_of(body).get(name):
            metadata[name] = metadata_of(body)[name]
    merged = {**old, "metadata": metadata}
    merged.pop("status", None)
    return merged | ({"status": body["status"]} if body.get("status") is not None else {})


def _same_object(write: Write, old: Object, body: Object) -> None:
    """Refuse a body that speaks of another object, or of an older state of this one."""
    resource, was, now = write.resource, metadata_of(old), metadata_of(body)
    for name, where in (("name", "name"), ("namespace", "namespace")):
        said = now.get(name)
        if said and said != was.get(name, ""):
            raise bad_request(
                f"the {where} of the object ({said}) does not match the {where} "
                f"on the URL ({was.get(name, '')})"
            )
    name = was.get("name", "")
    uid, version = now.get("uid"), now.get("resourceVersion")
    if uid and uid != was.get("uid"):
        why = (
            f"Precondition failed: UID in precondition: {uid}, "
            f"UID in object meta: {was.get('uid', '')}"
        )
        raise conflict(resource.group, resource.plural, name, why)
    if version not in (None, "", "0", was.get("resourceVersion")):
        raise conflict(resource.group, resource.plural, name)


stored = convert.stored
shown = convert.shown
