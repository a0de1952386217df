"""What a request carries, and how its answer leaves: the edge towards Flask.

Everything here reads Flask's current request; everything behind it gets values.
"""

from __future__ import annotations

from flask import Response, request

from labnet.api import codec
from labnet.api.codec import FieldValidation
from labnet.api.meta import Object
from labnet.api.status import bad_request
from labnet.apiserver import forms
from labnet.apiserver.accept import Accepted, negotiate, wants_indent
from labnet.apiserver.hijack import Hijack
from labnet.apiserver.kubelets import Answer, refused
from labnet.apiserver.selection import Selection, selection
from labnet.apiserver.target import Target
from labnet.apiserver.tunnel import Tunnel


def accepted() -> Accepted:
    """Return the form the client accepts. Raises ApiError 406."""
    return negotiate(request.headers.get("Accept", ""))


def included() -> str:
    """Return what of an object a Table's row carries."""
    return request.args.get("includeObject", "Metadata")


def validation() -> FieldValidation:
    """Return what to do about unknown fields. Raises ApiError 400."""
    return codec.field_validation(request.args.get("fieldValidation", ""))


def selected(target: Target) -> Selection:
    """Return the objects of a collection that are meant. Raises ApiError 400."""
    args = request.args
    return selection(
        target.resource,
        target.namespace,
        args.get("labelSelector", ""),
        args.get("fieldSelector", ""),
        target.name,
    )


def version_and_kind(target: Target) -> tuple[str, str]:
    """Return what a body at this path is."""
    if target.subresource == "scale":
        return "autoscaling/v1", "Scale"
    return target.resource.api_version, target.resource.kind


def decoded(api_version: str, kind: str) -> codec.Decoded:
    """Return the object in the body. Raises ApiError 400, 415."""
    content_type = request.headers.get("Content-Type", "")
    return codec.decode(
        request.get_data(cache=False), content_type, api_version, kind, validation()
    )


def delete_options() -> Object:
    """Return DeleteOptions from the body, and what the query adds (the Python client's way)."""
    content_type = request.headers.get("Content-Type", "")
    options = codec.decode_options(request.get_data(cache=False), content_type)
    args = request.args
    if "gracePeriodSeconds" in args and "gracePeriodSeconds" not in options:
        text = args["gracePeriodSeconds"]
        if not text.lstrip("-").isdecimal():
            raise bad_request(f'invalid gracePeriodSeconds "{text}"')
        options["gracePeriodSeconds"] = int(text)
    for name in ("propagationPolicy", "dryRun"):
        if args.get(name):
            options.setdefault(name, args[name])
    return options


def answer(body: bytes, accepted: Accepted, code: int = 200) -> Response:
    """Return ``body`` (JSON) as the client wants it."""
    pretty = wants_indent(request.user_agent.string, request.args.get("pretty"))
    rendered = forms.rendered(body, accepted.media, indent=pretty)
    response = Response(rendered, code, content_type=accepted.content_type)
    response.headers["Cache-Control"] = "no-cache, private"
    return response


def warned(response: Response, warnings: tuple[str, ...]) -> Response:
    """Return ``response`` with a Warning header for each text."""
    for text in warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def passed_on(given: Answer, expected: int) -> Response:
    """Join the client with the kubelet that answered as ``expected``. Raises ApiError."""
    if given.status != expected:
        raise refused(given)
    tunnel_from = given.head + given.rest
    return Hijack(lambda sock: Tunnel(sock, given.sock, tunnel_from).start())
