"""The API server as a Flask application: who may come in, and how it goes wrong.

``create_app`` wires the parts to routes and does nothing else; it opens no socket and
starts no thread, so a test can call it on a store in memory. Every request passes
authentication first; every failure leaves as a Status document.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from random import Random

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from labnet.api.meta import Chooser
from labnet.api.status import ApiError, internal_error, no_such_path
from labnet.apiserver import documents
from labnet.apiserver.auth import Authenticator
from labnet.apiserver.cache import WatchCache
from labnet.apiserver.entry import encode
from labnet.apiserver.eventleases import EventLeases
from labnet.apiserver.kubelets import Kubelets
from labnet.apiserver.reading import Reading
from labnet.apiserver.reservations import Ranges
from labnet.apiserver.streams import StreamLoop
from labnet.apiserver.views import Views
from labnet.apiserver.writing import Writing
from labnet.clock import Clock
from labnet.errors import LabnetError, Unavailable
from labnet.store.model import Store

LOG = logging.getLogger("kube-apiserver")
OPEN_TO_ALL = ("/livez", "/readyz", "/healthz")
_READS = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True)
class Parts:
    """What an API server is made of; ``cache`` and ``streams`` are started by the owner."""

    store: Store
    cache: WatchCache
    streams: StreamLoop
    authenticator: Authenticator
    kubelets: Kubelets
    ranges: Ranges
    clock: Clock
    chooser: Chooser
    random: Random
    address: str  # host:port under which clients of the cluster reach this server

    def writing(self) -> Writing:
        """Return what writes are made with."""
        leases = EventLeases(self.store, self.clock)
        return Writing(self.store, self.cache, self.ranges, leases, self.chooser, self.random)


def create_app(parts: Parts) -> Flask:
    """Return the application."""
    app = Flask("labnet.apiserver", static_folder=None)
    app.url_map.strict_slashes = False
    views = Views(
        Reading(parts.store, parts.cache),
        parts.writing(),
        parts.cache,
        parts.streams,
        parts.kubelets,
        parts.clock,
        parts.random,
    )
    app.register_blueprint(documents.health(parts.cache))
    app.register_blueprint(documents.documents(parts.address))
    app.register_blueprint(views.blueprint())

    @app.before_request
    def authenticate() -> None:
        if not request.path.startswith(OPEN_TO_ALL):
            certificate = getattr(request.environ.get("gunicorn.socket"), "identity", None)
            authorization = request.headers.get("Authorization", "")
            g.identity = parts.authenticator.identify(certificate, authorization)

    @app.after_request
    def audit(response: Response) -> Response:
        return _audited(response, parts.chooser.uid())

    app.register_error_handler(ApiError, _refused)
    app.register_error_handler(LabnetError, _failed)
    app.register_error_handler(HTTPException, _not_routed)
    app.register_error_handler(Exception, _broken)
    return app


def _audited(response: Response, audit_id: str) -> Response:
    """Give the response an id, and log it: writes and failures at INFO, the rest at DEBUG."""
    response.headers["Audit-Id"] = audit_id
    quiet = request.method in _READS and response.status_code < 500
    if LOG.isEnabledFor(logging.DEBUG if quiet else logging.INFO):
        identity = g.get("identity")
        LOG.log(
            logging.DEBUG if quiet else logging.INFO,
            '%s "%s" %d user=%s agent="%s" audit-id=%s',
            request.method,
            request.full_path.rstrip("?"),
            response.status_code,
            identity.user if identity else "-",
            request.user_agent.string.partition(" ")[0],
            audit_id,
        )
    return response


def _refused(error: ApiError) -> Response:
    response = Response(encode(error.status()) + b"\n", error.code, mimetype="application/json")
    if (seconds := error.details.get("retryAfterSeconds")) is not None:
        response.headers["Retry-After"] = str(seconds)
    if error.code == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="labnet"'
    return response


def _failed(error: LabnetError) -> Response:
    if not isinstance(error, Unavailable):
        LOG.error("%s: %s", type(error).__name__, error.message)
        return _refused(internal_error(error.message))
    text = f"the server is currently unable to handle the request: {error.message}"
    details = {"retryAfterSeconds": 1}
    return _refused(ApiError(503, "ServiceUnavailable", text, details=details))


def _not_routed(error: HTTPException) -> Response:
    if error.code == 405:
        text = "the server does not allow this method on the requested resource"
        return _refused(ApiError(405, "MethodNotAllowed", text))
    if error.code == 404:
        return _refused(no_such_path())
    return _refused(ApiError(error.code or 500, "BadRequest", error.description or ""))


def _broken(error: Exception) -> Response:
    LOG.exception("%s %s failed", request.method, request.path)
    return _refused(internal_error(f"{type(error).__name__}: {error}"))
