"""OpenAPI v3: the schema of every object, from which kubectl validates and explains.

``/openapi/v3`` lists one document per group version with a hash in its address, so
that a client may keep it for ever; ``kubectl apply`` reads the patch strategies of lists
out of it, ``kubectl explain`` the descriptions. The schemas ship with labnet in one
compressed file (``scripts/generate_schema.py``); a document is spliced out of its text
without parsing it, in about two milliseconds, and not kept.
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256

from labnet.api import definitions
from labnet.api.meta import JsonObject
from labnet.api.patch_types import PATCH_TYPES
from labnet.api.resources import Resource, group_versions, resources_of

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_COMMON = [_META + name for name in ("DeleteOptions", "Status", "WatchEvent")]
VERSION = "v1.37.0"


def index() -> JsonObject:
    """Return ``/openapi/v3``: the address of each group version's document."""
    paths = [_path(group, version) for group, version in group_versions()]
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest(path)}"}
            for path in sorted(paths)
        }
    }


@cache
def digest(group_version: str) -> str | None:
    """Return the hash in that document's address; also good as its ETag."""
    body = document(group_version)
    return None if body is None else sha256(body).hexdigest()[:32].upper()


def document(group_version: str) -> bytes | None:
    """Return the OpenAPI v3 document (JSON) of e.g. ``api/v1`` or ``apis/apps/v1``."""
    known = {_path(*gv): gv for gv in group_versions()}
    if group_version not in known:
        return None
    served = resources_of(*known[group_version])
    head = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": {path: ops for r in served for path, ops in _paths(r).items()},
    }
    text = json.dumps(head, separators=(",", ":")).encode()[:-1]
    schemas = b",".join(definitions.lines()[name] for name in definitions.closure(_roots(served)))
    return text + b',"components":{"schemas":{' + schemas + b"}}}"


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _roots(served: tuple[Resource, ...]) -> list[str]:
    kinds = [(r.api_version, k) for r in served for k in (r.kind, r.list_kind)]
    for resource in served:
        for sub in resource.subresources:
            if sub.kind:
                group_version = f"{sub.group}/{sub.version}" if sub.group else sub.version
                kinds.append((group_version, sub.kind))
    return _COMMON + [definitions.definition_name(*kind) for kind in kinds]


def _paths(resource: Resource) -> JsonObject:
    """Return the operations of ``resource``: those that clients look for.

    kubectl asks whether PATCH takes ``fieldValidation`` and a strategic merge patch; for
    the rest it relies on discovery.
    """
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"/{_path(resource.group, resource.version)}{scope}/{resource.plural}"
    found: JsonObject = {}
    if "create" in resource.verbs:
        found[collection] = {"post": _operation(resource, ("application/json",))}
    if "patch" in resource.verbs:
        found[collection + "/{name}"] = {
            "patch": _operation(resource, PATCH_TYPES),
            "put": _operation(resource, ("application/json",)),
        }
    return found


def _operation(resource: Resource, content_types: tuple[str, ...]) -> JsonObject:
    name = definitions.definition_name(resource.api_version, resource.kind)
    schema = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    return {
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in ("dryRun", "fieldManager", "fieldValidation")
        ],
        "requestBody": {"content": dict.fromkeys(content_types, schema)},
        "responses": {"200": {"description": "OK", "content": {"application/json": schema}}},
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
    }
