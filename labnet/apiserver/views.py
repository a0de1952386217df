"""Requests about objects: one function per verb of the API.

The path says what a request is about (``target``), the method and the query which verb
it is: GET of a collection is *list* or *watch*, DELETE of one *deletecollection*. A verb
the resource does not have is 405. Special subresources (log, exec, binding, eviction,
scale) have functions of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from random import Random

from flask import Blueprint, Response, g, request

from labnet.api import patch, subresources
from labnet.api.meta import Object
from labnet.api.resources import Resource
from labnet.api.status import bad_request, deleted, method_not_allowed, success
from labnet.apiserver import exchange, forms, versions, watching
from labnet.apiserver.accept import Accepted
from labnet.apiserver.cache import WatchCache
from labnet.apiserver.entry import Entry, encode
from labnet.apiserver.hijack import Hijack
from labnet.apiserver.kubelets import Kubelets, log_path, session_path
from labnet.apiserver.reading import Reading
from labnet.apiserver.streams import StreamLoop
from labnet.apiserver.target import Target, parse
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
        accepted = exchange.accepted()
        entry = self._reading.get(target)
        if target.subresource != "scale":
            return self._single(target.resource, entry, accepted)
        return self._scale(target, entry, accepted)

    def list(self, target: Target) -> Response:
        """A collection, or a page of it."""
        accepted, read = exchange.accepted(), versions.parse(request.args, watch=False)
        found = self._reading.list(exchange.selected(target), read)
        body = forms.listing(
            target.resource,
            found.entries,
            found.metadata,
            accepted,
            self._clock.now(),
            exchange.included(),
        )
        return exchange.answer(body, accepted)

    def watch(self, target: Target) -> Response:
        """What happens to a collection, or to one object, from now on."""
        read = versions.parse(request.args, watch=True)
        self._reading.await_revision(read.revision)
        wanted = watching.request(
            exchange.selected(target),
            exchange.accepted(),
            read,
            request.args,
            self._random.random(),
        )
        feed = watching.Feed(wanted, self._cache, self._clock)
        beginning = feed.start()
        return Hijack(lambda sock: feed.run(self._streams, sock, beginning))

    # -- writing -----------------------------------------------------------------------

    def create(self, target: Target) -> Response:
        """Store a new object, or answer a review."""
        resource, accepted = target.resource, exchange.accepted()
        decoded = exchange.decoded(resource.api_version, resource.kind)
        if not resource.storage:
            who = g.identity
            review = subresources.self_subject_review(
                resource.kind, decoded.object, who.user, who.uid, who.groups
            )
            return exchange.answer(encode(review), accepted, 201)
        written = self._writing.create(target, decoded.object, self._author())
        response = self._single(resource, written.entry, accepted, 201)
        return exchange.warned(response, decoded.warnings)

    def update(self, target: Target) -> Response:
        """Replace an object, its status or its scale."""
        accepted = exchange.accepted()
        decoded = exchange.decoded(*exchange.version_and_kind(target))
        written = self._writing.update(target, lambda _: decoded.object, self._author())
        return exchange.warned(self._written(target, written, accepted), decoded.warnings)

    def patch(self, target: Target) -> Response:
        """Change an object, its status or its scale."""
        content_type, validation = request.headers.get("Content-Type", ""), exchange.validation()
        if content_type.partition(";")[0].strip() == patch.APPLY_PATCH:
            return self._apply(target)
        accepted, body = exchange.accepted(), request.get_data(cache=False)
        warnings: list[str] = []

        def change(old: Object) -> Object:
            base = subresources.scale_of(old) if target.subresource == "scale" else old
            decoded = patch.patched(base, body, content_type, validation)
            warnings[:] = decoded.warnings
            return decoded.object

        written = self._writing.update(target, change, self._author())
        return exchange.warned(self._written(target, written, accepted), tuple(warnings))

    def _apply(self, target: Target) -> Response:
        """Create or change an object by server-side apply (KEP-555)."""
        accepted, validation = exchange.accepted(), exchange.validation()
        author = replace(self._author(), manager=request.args.get("fieldManager", ""))
        force = request.args.get("force") in _YES
        body = request.get_data(cache=False)
        written, warnings, created = self._writing.apply(target, body, author, force, validation)
        response = self._single(target.resource, written.entry, accepted, 201 if created else 200)
        return exchange.warned(response, warnings)

    def delete(self, target: Target) -> Response:
        """Delete an object, or mark it for deletion."""
        accepted, options = exchange.accepted(), exchange.delete_options()
        author = self._author(dry_run=bool(options.get("dryRun")))
        written = self._writing.delete(target, options, author)
        if not written.gone:
            return self._single(target.resource, written.entry, accepted)
        resource, metadata = target.resource, written.entry.object["metadata"]
        gone = deleted(resource.group, resource.plural, target.name, metadata.get("uid", ""))
        return exchange.answer(encode(gone), accepted)

    def delete_collection(self, target: Target) -> Response:
        """Delete all that is selected; answer with the list of it."""
        accepted, options = exchange.accepted(), exchange.delete_options()
        author = self._author(dry_run=bool(options.get("dryRun")))
        found = self._reading.list(
            exchange.selected(target), versions.parse(request.args, watch=False)
        )
        for entry in found.entries:
            metadata = entry.object["metadata"]
            one = Target(target.resource, metadata.get("namespace", ""), metadata["name"])
            self._writing.delete_if_present(one, options, author)
        body = forms.listing(
            target.resource, found.entries, found.metadata, accepted, self._clock.now()
        )
        return exchange.answer(body, accepted)

    def bind(self, target: Target) -> Response:
        """Put a pod on a node: what the scheduler does."""
        decoded = exchange.decoded("v1", "Binding")
        now = rfc3339(self._clock.now())
        self._writing.replace(
            target, lambda pod: subresources.bound(pod, decoded.object, now), self._author()
        )
        return exchange.answer(encode(success(code=201)), exchange.accepted(), 201)

    def evict(self, target: Target) -> Response:
        """Delete a pod on behalf of ``kubectl drain``."""
        decoded = exchange.decoded("policy/v1", "Eviction")
        options = decoded.object.get("deleteOptions") or {}
        author = self._author(dry_run=bool(options.get("dryRun")))
        self._writing.delete(target, options, author)
        return exchange.answer(encode(success(code=201)), exchange.accepted(), 201)

    # -- the kubelet's ------------------------------------------------------------------

    def log(self, target: Target) -> Response:
        """A container's log, from the kubelet of its node."""
        pod = self._reading.get(target).object
        answer = self._kubelets.ask(pod, "GET", log_path(pod, request.args), {})
        return exchange.passed_on(answer, 200)

    def session(self, target: Target) -> Response:
        """An exec or attach: the connection, joined to one with the kubelet."""
        if "upgrade" not in request.headers.get("Connection", "").lower():
            raise bad_request("Upgrade request required")
        pod = self._reading.get(target).object
        command = request.args.getlist("command")
        path = session_path(target.subresource, pod, request.args, command)
        return exchange.passed_on(
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
        body = forms.single(resource, entry, accepted, self._clock.now(), exchange.included())
        return exchange.answer(body, accepted, code)

    def _scale(self, target: Target, entry: Entry, accepted: Accepted) -> Response:
        scale = subresources.scale_of(entry.shown(target.resource))
        now: datetime = self._clock.now()
        shaped = forms.in_form(target.resource, scale, accepted.form, now, exchange.included())
        return exchange.answer(encode(shaped), accepted)


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
