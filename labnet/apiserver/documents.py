"""What a client asks before it asks for objects: health, version, discovery, schemas.

kubectl's first requests are ``/api`` and ``/apis``, which it keeps for hours under an
ETag; before it sends a file, ``/openapi/v3`` and one document per group version, kept
for ever because its address contains a hash of it. ``/openapi/v2`` it asks for a List.
"""

from __future__ import annotations

import hashlib
from functools import cache as once
from typing import Any

from flask import Blueprint, Response, request

from labnet.api import discovery, openapi
from labnet.api.status import ApiError, no_such_path, not_acceptable
from labnet.apiserver import openapi_v2
from labnet.apiserver.accept import JSON, discovery_version, wants_indent
from labnet.apiserver.cache import WatchCache
from labnet.apiserver.entry import encode
from labnet.apiserver.forms import rendered
from labnet.errors import Unavailable

MINOR = "37"  # of the Kubernetes whose schemas are served; kubectl compares it with its own
VERSION = {
    "major": "1",
    "minor": MINOR,
    "gitVersion": f"v1.{MINOR}.0+labnet",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "CPython",
    "platform": "linux/amd64",
}
_FOR_EVER = "public, immutable, max-age=31536000"


def _json(document: Any, content_type: str = JSON) -> Response:
    """Return a document with an ETag; 304 when the client has it already."""
    body = encode(document)
    pretty = wants_indent(request.user_agent.string, request.args.get("pretty"))
    response = Response(rendered(body, JSON, indent=pretty), content_type=content_type)
    response.set_etag(hashlib.sha256(body).hexdigest()[:32])
    response.headers["Vary"] = "Accept"
    response.headers["Cache-Control"] = "no-cache, private"
    response.make_conditional(request)
    return response


@once
def _aggregated(core: bool, version: str) -> dict[str, Any]:
    return discovery.aggregated(core, version)


def _root(core: bool, legacy: dict[str, Any]) -> Response:
    version = discovery_version(request.headers.get("Accept", ""))
    if not version:
        return _json(legacy)
    return _json(_aggregated(core, version), discovery.AGGREGATED.format(version=version))


def health(cache: WatchCache) -> Blueprint:
    """Return the routes that say whether the server works, and which it is."""
    routes = Blueprint("health", __name__)

    @routes.get("/version")
    def version() -> Response:
        return _json(VERSION)

    @routes.get("/livez")
    @routes.get("/healthz")
    def live() -> Response:
        return Response("ok", mimetype="text/plain")

    @routes.get("/readyz")
    def ready() -> Response:
        try:
            cache.check_store()
        except Unavailable as error:
            raise ApiError(500, "InternalError", f"[-]etcd failed: {error.message}") from error
        return Response("ok", mimetype="text/plain")

    return routes


def documents(address: str) -> Blueprint:
    """Return the routes of what is served; ``address`` is this server's host:port."""
    routes = Blueprint("documents", __name__)

    @routes.get("/api")
    def core() -> Response:
        return _root(True, discovery.api_versions(address))

    @routes.get("/apis")
    def groups() -> Response:
        return _root(False, discovery.api_group_list())

    @routes.get("/apis/<group>")
    def group(group: str) -> Response:
        return _json(_found(discovery.api_group(group)))

    @routes.get("/api/<version>")
    def core_resources(version: str) -> Response:
        return _json(_found(discovery.api_resource_list("", version)))

    @routes.get("/apis/<group>/<version>")
    def resources(group: str, version: str) -> Response:
        return _json(_found(discovery.api_resource_list(group, version)))

    @routes.get("/openapi/v2")
    def old_schemas() -> Response:
        return _old_schemas()

    @routes.get("/openapi/v3")
    def schemas() -> Response:
        return _json(openapi.index())

    @routes.get("/openapi/v3/<path:group_version>")
    def schema(group_version: str) -> Response:
        return _schema(group_version.rstrip("/"))

    return routes


def _found(document: dict[str, Any] | None) -> dict[str, Any]:
    if document is None:
        raise no_such_path()
    return document


def _old_schemas() -> Response:
    """Return OpenAPI v2. Raises ApiError 406 for whoever wants JSON."""
    if not openapi_v2.accepts(request.headers.get("Accept", "")):
        raise not_acceptable((openapi_v2.CONTENT_TYPE,))
    response = Response(openapi_v2.document(), content_type=openapi_v2.CONTENT_TYPE)
    response.set_etag(openapi_v2.digest())
    response.headers["Vary"] = "Accept"
    response.headers["Cache-Control"] = "no-cache, private"
    response.make_conditional(request)
    return response


def _schema(group_version: str) -> Response:
    document = openapi.document(group_version)
    if document is None:
        raise no_such_path()
    response = Response(document, content_type=JSON)
    response.set_etag(openapi.digest(group_version) or "")
    if request.args.get("hash"):
        response.headers["Cache-Control"] = _FOR_EVER
        response.headers["Expires"] = "Thu, 31 Dec 2099 23:59:59 GMT"
    response.make_conditional(request)
    return response
