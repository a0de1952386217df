"""Status documents: how the API server says what went wrong, and that it went right.

Every failure of a Kubernetes API call is one JSON object of kind Status with an HTTP
``code``, a machine-readable ``reason`` and a ``message`` that kubectl prints as
``Error from server (Reason): message``. The texts are those of
``k8s.io/apimachinery/pkg/api/errors``: people search the web for them, so they are
kept word for word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labnet.errors import LabnetError

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason among several: which field, which rule, in which words."""

    reason: str  # FieldValueInvalid, FieldValueRequired, FieldManagerConflict, …
    message: str
    field: str = ""

    def document(self) -> JsonObject:
        """Return the StatusCause."""
        cause = {"reason": self.reason, "message": self.message}
        return cause | {"field": self.field} if self.field else cause


class ApiError(LabnetError):
    """A refused request: an HTTP code, a reason, and the Status that says so."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = dict(details or {})

    def status(self) -> JsonObject:
        """Return the Status document of this failure."""
        document: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details:
            document["details"] = self.details
        document["code"] = self.code
        return document


def _details(group: str, plural: str, name: str = "") -> JsonObject:
    full = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in full.items() if value}


def _qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> ApiError:
    """404: ``pods "web" not found``."""
    text = f'{_qualified(group, plural)} "{name}" not found'
    return ApiError(404, "NotFound", text, details=_details(group, plural, name))


def no_such_path() -> ApiError:
    """404 for a path or resource type nobody serves."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(group: str, plural: str, name: str) -> ApiError:
    """409: ``pods "web" already exists``."""
    text = f'{_qualified(group, plural)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, details=_details(group, plural, name))


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(group: str, plural: str, name: str, why: str = MODIFIED) -> ApiError:
    """409: the object is not what the caller thought it was."""
    text = f'Operation cannot be fulfilled on {_qualified(group, plural)} "{name}": {why}'
    return ApiError(409, "Conflict", text, details=_details(group, plural, name))


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422: every problem of the object, each under its field's path."""
    texts = list(dict.fromkeys(f"{c.field}: {c.message}" for c in causes))
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    full = f"{kind}.{group}" if group else kind
    details = _details(group, kind, name) | {"causes": [c.document() for c in causes]}
    return ApiError(422, "Invalid", f'{full} "{name}" is invalid: {listed}', details=details)


def bad_request(message: str) -> ApiError:
    """400: the request makes no sense as it stands."""
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """401: nobody the server knows."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, why: str) -> ApiError:
    """403: known, but not allowed."""
    subject = f'{_qualified(group, plural)} "{name}"' if name else _qualified(group, plural)
    text = f"{subject} is forbidden: {why}"
    return ApiError(403, "Forbidden", text, details=_details(group, plural, name))


def method_not_allowed(group: str, plural: str, action: str) -> ApiError:
    """405: this resource has no such verb."""
    text = f'{action} is not supported on resources of kind "{_qualified(group, plural)}"'
    return ApiError(405, "MethodNotAllowed", text, details=_details(group, plural))


def not_acceptable(accepted: Iterable[str]) -> ApiError:
    """406: the server cannot answer in any form the client takes."""
    text = f"only the following media types are accepted: {', '.join(accepted)}"
    return ApiError(406, "NotAcceptable", text)


def unsupported_media_type(accepted: Iterable[str]) -> ApiError:
    """415: a request body in a form the server does not read."""
    text = (
        "the body of the request was in an unknown format - "
        f"accepted media types include: {', '.join(accepted)}"
    )
    return ApiError(415, "UnsupportedMediaType", text)


def expired(message: str) -> ApiError:
    """410: a resource version or continue token that compaction has forgotten."""
    return ApiError(410, "Expired", message)


def resource_version_too_large(asked: int, current: int) -> ApiError:
    """504: a resource version from the future; the client starts again without one."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    text = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", text, details=details)


def internal_error(message: str) -> ApiError:
    """500: the server's own fault."""
    details = {"causes": [{"message": message}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", details=details)


def success(details: Mapping[str, Any] | None = None, code: int = 0) -> JsonObject:
    """Return the Status of a request that went well and has no object to show."""
    document: JsonObject = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    }
    if details:
        document["details"] = dict(details)
    if code:
        document["code"] = code
    return document


def deleted(group: str, plural: str, name: str, uid: str) -> JsonObject:
    """Return what DELETE answers; ``kubectl wait --for=delete`` reads the uid there."""
    return success(_details(group, plural, name) | {"uid": uid})
