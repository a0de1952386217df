"""The API server over HTTPS, as a component with a certificate or a person with a token.

One :class:`Client` serves every thread of a process. Its object-level methods are those
of :class:`labnet.client.api.Api`; ``request`` is the bare call for everything else.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Self
from urllib.parse import urlencode

from labnet.api.meta import Object
from labnet.api.patch_types import MERGE_PATCH
from labnet.api.resource import Resource
from labnet.client.api import (
    Listed,
    WatchEvent,
    binding,
    delete_options,
    error_of,
    path_of,
)
from labnet.client.connection import Answer, Connections, Request, Stream
from labnet.errors import Unavailable
from labnet.store.tls import Tls

__all__ = ["Client", "Tls"]

JSON = "application/json"
TIMEOUT = 30.0  # seconds for one answer
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0  # seconds between two questions

Query = Mapping[str, str | int | bool]


def tls_context(ca: str, tls: Tls | None) -> ssl.SSLContext:
    """Return a context that trusts only ``ca`` (a path) and shows ``tls``' certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca)
    if tls is not None:
        context.load_cert_chain(tls.cert, tls.key)
    return context


class Client:
    """An API server at ``url``, e.g. ``https://192.168.50.10:6443``.

    Shows the certificate of ``tls``, or ``token`` (then ``ca`` names the authority's
    file). Nothing connects before the first call. Keeps ``labnet.client.api.Api``.
    """

    def __init__(
        self,
        url: str,
        tls: Tls | None = None,
        *,
        ca: str = "",
        token: str = "",
        user_agent: str = "labnet",
        timeout: float = TIMEOUT,
    ) -> None:
        secure = url.startswith("https:")
        context = tls_context(tls.ca if tls else ca, tls) if secure else None
        self._connections = Connections(url, context, timeout)
        self._headers = {"Accept": JSON, "User-Agent": user_agent}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every idle connection."""
        self._connections.close()

    def wait_ready(self, stop: threading.Event) -> bool:
        """Ask until the server answers, often at first; False once ``stop`` is set.

        For a process that starts together with its API server: one connection asks, and
        the twenty that follow find somebody.
        """
        pause = _FIRST_PAUSE
        while not stop.is_set():
            try:
                self.request("GET", "/version")
            except Unavailable:
                stop.wait(pause)
                pause = min(pause * 1.05, _LONGEST_PAUSE)
            else:
                return True
        return False

    def request(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
    ) -> Object:
        """Return the JSON document that the server answers; raises as ``api`` says.

        ``body``, unless None, is sent as JSON under ``content_type``.
        """
        answer = self._connections.exchange(
            Request(method, _target(path, query), *self._sent(body, content_type))
        )
        return _document(answer)

    def _sent(self, body: Any, content_type: str) -> tuple[dict[str, str], bytes | None]:
        if body is None:
            return self._headers, None
        data = json.dumps(body, separators=(",", ":")).encode()
        return {**self._headers, "Content-Type": content_type}, data

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """Return one object, or raise ``NotFound``."""
        return self.request("GET", path_of(resource, namespace, name))

    def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed:
        """Return the objects that the two selectors mean."""
        query = _selectors(labels, fields)
        answer = self.request("GET", path_of(resource, namespace), query)
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        items = tuple(kind | item for item in answer.get("items") or ())
        return Listed(items, answer["metadata"]["resourceVersion"])

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        version: str,
        labels: str = "",
        fields: str = "",
    ) -> Watch:
        """Yield what happens after ``version``; see ``Api.watch``."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            **_selectors(labels, fields),
        }
        target = _target(path_of(resource, namespace), query)
        return Watch(self._connections, Request("GET", target, self._headers))

    def create(self, resource: Resource, obj: Object) -> Object:
        """Create ``obj`` in the namespace it names; return it as the server has it."""
        namespace = obj["metadata"].get("namespace", "")
        return self.request("POST", path_of(resource, namespace), body=obj)

    def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """Replace ``obj``; ``Conflict`` unless its resourceVersion is the current one."""
        metadata = obj["metadata"]
        path = path_of(resource, metadata.get("namespace", ""), metadata["name"], subresource)
        return self.request("PUT", path, body=obj)

    def update_status(self, resource: Resource, obj: Object) -> Object:
        """Replace only the status of ``obj``; ``Conflict`` as for ``update``."""
        return self.update(resource, obj, "status")

    def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Any,
        *,
        form: str = MERGE_PATCH,
        subresource: str = "",
    ) -> Object:
        """Change an object by a patch; ``form`` is its media type."""
        path = path_of(resource, namespace, name, subresource)
        return self.request("PATCH", path, body=patch, content_type=form)

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        grace_seconds: int | None = None,
        uid: str = "",
        propagation: str = "Background",
    ) -> Object:
        """Delete an object; with ``uid`` only that very one (else ``Conflict``)."""
        options = delete_options(grace_seconds, uid, propagation)
        return self.request("DELETE", path_of(resource, namespace, name), body=options)

    def delete_collection(self, resource: Resource, namespace: str) -> None:
        """Delete every object of one kind in ``namespace``."""
        self.request("DELETE", path_of(resource, namespace))

    def bind(
        self, namespace: str, pod: str, node: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Put a pod on a node; the annotations are copied onto the pod."""
        from labnet.client.kinds import PODS

        path = path_of(PODS, namespace, pod, "binding")
        self.request("POST", path, body=binding(namespace, pod, node, annotations))


class Watch:
    """One watch request: connects when entered, ends when left."""

    def __init__(self, connections: Connections, request: Request) -> None:
        self._connections = connections
        self._request = request
        self._stream: Stream | None = None
        self._left = False

    def __enter__(self) -> Iterator[WatchEvent]:
        stream = self._connections.stream(self._request)
        if stream.code != 200:
            body = stream.rest()
            stream.close()
            raise error_of(stream.code, _parsed(body))
        self._stream = stream
        if self._left:
            stream.hang_up()
        return self._events(stream)

    def __exit__(self, *_: object) -> None:
        self._left = True
        if self._stream is not None:
            self._stream.hang_up()

    def _events(self, stream: Stream) -> Iterator[WatchEvent]:
        try:
            while line := self._line(stream):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise error_of(event["object"].get("code", 500), event["object"])
                yield WatchEvent(event["type"], event["object"])
        finally:
            stream.close()

    def _line(self, stream: Stream) -> bytes:
        try:
            line = stream.line()
        except Unavailable:
            if self._left:
                return b""
            raise
        return line if line.endswith(b"\n") else b""


def _target(path: str, query: Query | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _selectors(labels: str, fields: str) -> dict[str, str]:
    both = {"labelSelector": labels, "fieldSelector": fields}
    return {name: text for name, text in both.items() if text}


def _document(answer: Answer) -> Object:
    parsed = _parsed(answer.body)
    if answer.code >= 400:
        raise error_of(answer.code, parsed)
    return parsed


def _parsed(body: bytes) -> Object:
    """Return a JSON object; plain text (a proxy's, a crash's) becomes a message."""
    try:
        document = json.loads(body or b"{}")
    except ValueError:
        return {"message": body.decode(errors="replace").strip()}
    return document if isinstance(document, dict) else {"message": str(document)}
