"""Requests about objects: one function per verb of the API.

The path says what a request is about (``target``), the method and the query which verb
it is: GET of a collection is *list* or *watch*, DELETE of one *deletecollection*. A verb
the resource does not have is 405. Special subresources (log, exec, binding, eviction,
scale) have functions of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from random import Random

from flask import Blueprint, Response, g, request

from labnet.api import codec, patch, subresources
from labnet.api.codec import FieldValidation
from labnet.api.meta import Object
from labnet.api.resources import Resource
from labnet.api.status import bad_request, deleted, method_not_allowed, success
from labnet.apiserver import forms, versions, watching
from labnet.apiserver.accept import Accepted, negotiate, wants_indent
from labnet.apiserver.cache import WatchCache
from labnet.apiserver.entry import Entry, encode
from labnet.apiserver.hijack import Hijack
from labnet.apiserver.kubelets import Answer, Kubelets, log_path, refused, session_path
from labnet.apiserver.reading import Reading
from labnet.apiserver.selection import Selection, selection
from labnet.apiserver.streams import StreamLoop
from labnet.apiserver.target import Target, parse
from labnet.apiserver.tunnel import Tunnel
from labnet.apiserver.writing import Author, Writing, Written
from labnet.clock import Clock, rfc3339

_METHODS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_YES = ("true", "1")
_OF_THE_PARENT = ("", "status", "ephemeralcontainers", "finalize")
_CONNECTED = ("exec", "attach")

View = Callable[[Target], Response]


class Views:
    """The functions, over the parts they work with."""

    def __init__(
        self,
        reading: Reading,
        writing: Writing,
        cache: WatchCache,
        streams: StreamLoop,
        kubelets: Kubelets,
        clock: Clock,
        random: Random,
    ) -> None:
        self._reading = reading
        self._writing = writing
        self._cache = cache
        self._streams = streams
        self._kubelets = kubelets
        self._clock = clock
        self._random = random
        self._verbs: dict[str, View] = {
            "get": self.get,
            "list": self.list,
            "watch": self.watch,
            "create": self.create,
            "update": self.update,
            "patch": self.patch,
            "delete": self.delete,
            "deletecollection": self.delete_collection,
        }
        self._special: dict[str, View] = {
            "log": self.log,
            "exec": self.session,
            "attach": self.session,
            "binding": self.bind,
            "eviction": self.evict,
        }

    def blueprint(self) -> Blueprint:
        """Return the routes of all resources."""
        routes = Blueprint("resources", __name__)
        methods = list(_METHODS)

        # Werkzeug wants rules of their own for requests that ask for a WebSocket (exec).
        @routes.get("/api/<version>/<path:path>", websocket=True)
        @routes.route("/api/<version>/<path:path>", methods=methods)
        def core(version: str, path: str) -> Response:
            return self._dispatch(parse("", version, path))

        @routes.get("/apis/<group>/<version>/<path:path>", websocket=True)
        @routes.route("/apis/<group>/<version>/<path:path>", methods=methods)
        def grouped(group: str, version: str, path: str) -> Response:
            return self._dispatch(parse(group, version, path))

        return routes

    def _dispatch(self, target: Target) -> Response:
        verb = verb_of(request.method, target, watch=request.args.get("watch") in _YES)
        sub = target.resource.subresource(target.subresource)
        if verb not in (sub.verbs if sub else target.resource.verbs):
            raise method_not_allowed(target.resource.group, target.plural, verb)
        return (self._special.get(target.subresource) or self._verbs[verb])(target)

    # -- reading -----------------------------------------------------------------------

    def get(self, target: Target) -> Response:
        """One object, or its scale."""
        accepted = _accepted()
        entry = self._reading.get(target)
        if target.subresource != "scale":
            return self._single(target.resource, entry, accepted)
        return self._scale(target, entry, accepted)

    def list(self, target: Target) -> Response:
        """A collection, or a page of it."""
        accepted, read = _accepted(), versions.parse(request.args, watch=False)
        found = self._reading.list(_selection(target), read)
        body = forms.listing(
            target.resource, found.entries, found.metadata, accepted, self._clock.now(), _include()
        )
        return _response(body, accepted)

    def watch(self, target: Target) -> Response:
        """What happens to a collection, or to one object, from now on."""
        read = versions.parse(request.args, watch=True)
        self._reading.await_revision(read.revision)
        wanted = watching.request(
            _selection(target), _accepted(), read, request.args, self._random.random()
        )
        feed = watching.Feed(wanted, self._cache, self._clock)
        beginning = feed.start()
        return Hijack(lambda sock: feed.run(self._streams, sock, beginning))

    # -- writing -----------------------------------------------------------------------

    def create(self, target: Target) -> Response:
        """Store a new object, or answer a review."""
        resource, accepted = target.resource, _accepted()
        decoded = _decoded(resource.api_version, resource.kind)
        if not resource.storage:
            who = g.identity
            review = subresources.self_subject_review(
                resource.kind, decoded.object, who.user, who.uid, who.groups
            )
            return _response(encode(review), accepted, 201)
        written = self._writing.create(target, decoded.object, self._author())
        response = self._single(resource, written.entry, accepted, 201)
        return _warned(response, decoded.warnings)

    def update(self, target: Target) -> Response:
        """Replace an object, its status or its scale."""
        accepted = _accepted()
        decoded = _decoded(*_version_and_kind(target))
        written = self._writing.update(target, lambda _: decoded.object, self._author())
        return _warned(self._written(target, written, accepted), decoded.warnings)

    def patch(self, target: Target) -> Response:
        """Change an object, its status or its scale."""
        accepted, body = _accepted(), request.get_data(cache=False)
        content_type, validation = request.headers.get("Content-Type", ""), _validation()
        warnings: list[str] = []

        def change(old: Object) -> Object:
            base = subresources.scale_of(old) if target.subresource == "scale" else old
            decoded = patch.patched(base, body, content_type, validation)
            warnings[:] = decoded.warnings
            return decoded.object

        written = self._writing.update(target, change, self._author())
        return _warned(self._written(target, written, accepted), tuple(warnings))

    def delete(self, target: Target) -> Response:
        """Delete an object, or mark it for deletion."""
        accepted, options = _accepted(), _delete_options()
        author = self._author(dry_run=bool(options.get("dryRun")))
        written = self._writing.delete(target, options, author)
        if not written.gone:
            return self._single(target.resource, written.entry, accepted)
        resource, metadata = target.resource, written.entry.object["metadata"]
        gone = deleted(resource.group, resource.plural, target.name, metadata.get("uid", ""))
        return _response(encode(gone), accepted)

    def delete_collection(self, target: Target) -> Response:
        """Delete all that is selected; answer with the list of it."""
        accepted, options = _accepted(), _delete_options()
        author = self._author(dry_run=bool(options.get("dryRun")))
        found = self._reading.list(_selection(target), versions.parse(request.args, watch=False))
        for entry in found.entries:
            metadata = entry.object["metadata"]
            one = Target(target.resource, metadata.get("namespace", ""), metadata["name"])
            self._writing.delete_if_present(one, options, author)
        body = forms.listing(
            target.resource, found.entries, found.metadata, accepted, self._clock.now()
        )
        return _response(body, accepted)

    def bind(self, target: Target) -> Response:
        """Put a pod on a node: what the scheduler does."""
        decoded = _decoded("v1", "Binding")
        now = rfc3339(self._clock.now())
        self._writing.replace(
            target, lambda pod: subresources.bound(pod, decoded.object, now), self._author()
        )
        return _response(encode(success(code=201)), _accepted(), 201)

    def evict(self, target: Target) -> Response:
        """Delete a pod on behalf of ``kubectl drain``."""
        decoded = _decoded("policy/v1", "Eviction")
        options = decoded.object.get("deleteOptions") or {}
        author = self._author(dry_run=bool(options.get("dryRun")))
        self._writing.delete(target, options, author)
        return _response(encode(success(code=201)), _accepted(), 201)

    # -- the kubelet's ------------------------------------------------------------------

    def log(self, target: Target) -> Response:
        """A container's log, from the kubelet of its node."""
        pod = self._reading.get(target).object
        answer = self._kubelets.ask(pod, "GET", log_path(pod, request.args), {})
        return _passed_on(answer, 200)

    def session(self, target: Target) -> Response:
        """An exec or attach: the connection, joined to one with the kubelet."""
        if "upgrade" not in request.headers.get("Connection", "").lower():
            raise bad_request("Upgrade request required")
        pod = self._reading.get(target).object
        command = request.args.getlist("command")
        path = session_path(target.subresource, pod, request.args, command)
        return _passed_on(
            self._kubelets.ask(pod, request.method, path, dict(request.headers.items())), 101
        )

    # -- answers ------------------------------------------------------------------------

    def _author(self, *, dry_run: bool = False) -> Author:
        manager = request.args.get("fieldManager") or request.user_agent.string.partition("/")[0]
        dry = dry_run or request.args.get("dryRun") == "All"
        return Author(manager, self._clock.now(), dry)

    def _written(self, target: Target, written: Written, accepted: Accepted) -> Response:
        if target.subresource == "scale":
            return self._scale(target, written.entry, accepted)
        return self._single(target.resource, written.entry, accepted)

    def _single(
        self, resource: Resource, entry: Entry, accepted: Accepted, code: int = 200
    ) -> Response:
        body = forms.single(resource, entry, accepted, self._clock.now(), _include())
        return _response(body, accepted, code)

    def _scale(self, target: Target, entry: Entry, accepted: Accepted) -> Response:
        scale = subresources.scale_of(entry.shown(target.resource))
        now: datetime = self._clock.now()
        shaped = forms.in_form(target.resource, scale, accepted.form, now, _include())
        return _response(encode(shaped), accepted)


def verb_of(method: str, target: Target, *, watch: bool) -> str:
    """Return the verb of a request, as discovery lists them."""
    if target.subresource:
        return _METHODS[method]
    if method == "GET" and watch:
        return "watch"
    if not target.name:
        collection = {"GET": "list", "DELETE": "deletecollection", "POST": "create"}
        return collection.get(method, method.lower())
    return "post" if method == "POST" else _METHODS[method]  # nobody creates under a name


def _accepted() -> Accepted:
    return negotiate(request.headers.get("Accept", ""))


def _include() -> str:
    return request.args.get("includeObject", "Metadata")


def _validation() -> FieldValidation:
    return codec.field_validation(request.args.get("fieldValidation", ""))


def _selection(target: Target) -> Selection:
    args = request.args
    return selection(
        target.resource,
        target.namespace,
        args.get("labelSelector", ""),
        args.get("fieldSelector", ""),
        target.name,
    )


def _version_and_kind(target: Target) -> tuple[str, str]:
    """Return what a body at this path is."""
    if target.subresource == "scale":
        return "autoscaling/v1", "Scale"
    return target.resource.api_version, target.resource.kind


def _decoded(api_version: str, kind: str) -> codec.Decoded:
    content_type = request.headers.get("Content-Type", "")
    return codec.decode(
        request.get_data(cache=False), content_type, api_version, kind, _validation()
    )


def _delete_options() -> Object:
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


def _response(body: bytes, accepted: Accepted, code: int = 200) -> Response:
    pretty = wants_indent(request.user_agent.string, request.args.get("pretty"))
    rendered = forms.rendered(body, accepted.media, indent=pretty)
    response = Response(rendered, code, content_type=accepted.content_type)
    response.headers["Cache-Control"] = "no-cache, private"
    return response


def _warned(response: Response, warnings: tuple[str, ...]) -> Response:
    for text in warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def _passed_on(answer: Answer, expected: int) -> Response:
    """Join the client with the kubelet that answered as ``expected``. Raises ApiError."""
    if answer.status != expected:
        raise refused(answer)
    tunnel_from = answer.head + answer.rest
    return Hijack(lambda sock: Tunnel(sock, answer.sock, tunnel_from).start())
