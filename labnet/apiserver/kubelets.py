"""Logs and exec: the API server asks the kubelet of the pod's node, as itself.

kubectl never talks to a node. It asks the API server, which knows the pod's node and the
node's address, connects there with a certificate that the kubelet trusts
(``kube-apiserver-kubelet-client``), and passes the bytes on: a log as the response's
body, an exec as an upgraded connection whose WebSocket only the two ends understand.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from labnet.api.meta import Object, metadata_of
from labnet.api.resources import find
from labnet.api.status import ApiError, bad_request, internal_error
from labnet.apiserver.cache import WatchCache
from labnet.store.tls import Tls

TIMEOUT = 5.0  # seconds to connect, and to begin an answer
PORT = 10250
_HEAD_LIMIT = 64 * 1024
_LOG_OPTIONS = (
    "follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes",
)  # fmt: skip
_STREAMS = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))
_TRUE = ("1", "true", "True")
# A request's headers that concern its own connection, or say who is asking.
_NOT_PASSED_ON = ("host", "authorization", "content-length", "connection", "accept-encoding")


@dataclass(frozen=True, slots=True)
class Answer:
    """A kubelet's response, its body still to come on ``sock``."""

    status: int
    head: bytes  # as received, with the empty line
    rest: bytes  # what of the body came with it
    sock: socket.socket

    def text(self) -> str:
        """Read the whole body, a short error text, and close."""
        body = self.rest
        with self.sock:
            while len(body) < _HEAD_LIMIT and (data := self.sock.recv(_HEAD_LIMIT)):
                body += data
        if b"chunked" in self.head.lower():
            body = body.partition(b"\r\n")[2].rpartition(b"\r\n0\r\n")[0]
        return body.decode(errors="replace").strip()


def log_path(pod: Object, args: Mapping[str, str]) -> str:
    """Return the kubelet's path of a container's log. Raises ApiError 400."""
    container = _container(pod, args.get("container", ""))
    query = urlencode({name: args[name] for name in _LOG_OPTIONS if args.get(name)})
    return f"{_path('containerLogs', pod, container)}?{query}".rstrip("?")


def session_path(verb: str, pod: Object, args: Mapping[str, str], command: Sequence[str]) -> str:
    """Return the kubelet's path of an ``exec`` or ``attach``. Raises ApiError 400."""
    container = _container(pod, args.get("container", ""))
    query = [("command", word) for word in command]
    query += [(ours, "1") for theirs, ours in _STREAMS if args.get(theirs) in _TRUE]
    return f"{_path(verb, pod, container)}?{urlencode(query)}"


def _path(verb: str, pod: Object, container: str) -> str:
    metadata = metadata_of(pod)
    parts = (verb, metadata["namespace"], metadata["name"], container)
    return "/" + "/".join(quote(part, safe="") for part in parts)


def _container(pod: Object, asked: str) -> str:
    """Return the container meant. Raises ApiError 400 in the API server's words."""
    spec, name = pod.get("spec") or {}, metadata_of(pod)["name"]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    known = [c["name"] for kind in kinds for c in spec.get(kind) or ()]
    if asked:
        if asked not in known:
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    containers = [c["name"] for c in spec.get("containers") or ()]
    if len(containers) != 1:
        choice = f"choose one of: [{' '.join(containers)}]"
        raise bad_request(f"a container name must be specified for pod {name}, {choice}")
    only: str = containers[0]
    return only


def node_address(node: Object | None, name: str) -> tuple[str, int]:
    """Return where the kubelet of a node listens. Raises ApiError 500."""
    status = (node or {}).get("status") or {}
    addresses = {a["type"]: a["address"] for a in status.get("addresses") or ()}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port", PORT)
    address = addresses.get("InternalIP") or addresses.get("Hostname")
    if address is None:
        raise internal_error(f"no preferred addresses found for node {name}")
    return address, port


class Kubelets:
    """Connects to kubelets; ``tls`` is the certificate the API server shows them."""

    def __init__(self, cache: WatchCache, tls: Tls | None) -> None:
        self._cache = cache
        self._context: ssl.SSLContext | None = None
        if tls is not None:
            self._context = ssl.create_default_context(cafile=tls.ca)
            self._context.load_cert_chain(tls.cert, tls.key)

    def ask(self, pod: Object, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        """Send a request without a body to the pod's kubelet; return once its head is there.

        Raises ApiError 400 for a pod without a node, 500 when the kubelet is unreachable.
        """
        node = (pod.get("spec") or {}).get("nodeName", "")
        if not node:
            raise bad_request(f"pod {metadata_of(pod)['name']} does not have a host assigned")
        address, port = node_address(self._node(node), node)
        fields = {k: v for k, v in headers.items() if k.lower() not in _NOT_PASSED_ON}
        fields["Host"] = f"{address}:{port}"
        fields["Connection"] = "Upgrade" if "Upgrade" in headers else "close"
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        request = f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")
        try:
            return _answer(self._connect(address, port), request)
        except OSError as error:
            raise _unreachable(address, port, error) from error

    def _node(self, name: str) -> Object | None:
        nodes = find("", "v1", "nodes")
        entry = self._cache.get(nodes.key("", name)) if nodes else None
        return entry.object if entry else None

    def _connect(self, address: str, port: int) -> socket.socket:
        raw = socket.create_connection((address, port), TIMEOUT)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is None:
            return raw
        try:
            return self._context.wrap_socket(raw, server_hostname=address)
        except BaseException:
            raw.close()
            raise


def _answer(sock: socket.socket, request: bytes) -> Answer:
    try:
        sock.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received and len(received) < _HEAD_LIMIT:
            data = sock.recv(_RECEIVE)
            if not data:
                raise ConnectionResetError("the kubelet closed the connection without an answer")
            received += data
        head, end, rest = received.partition(b"\r\n\r\n")
        status = int(head.split(None, 2)[1])
    except BaseException:
        sock.close()
        raise
    return Answer(status, head + end, rest, sock)


_RECEIVE = 16 * 1024


def _unreachable(address: str, port: int, error: OSError) -> ApiError:
    why = (error.strerror or str(error)).lower() if error.errno else str(error)
    if isinstance(error, TimeoutError):
        why = "i/o timeout"
    text = f"error dialing backend: dial tcp {address}:{port}: connect: {why}"
    return ApiError(500, "InternalError", text)


def refused(answer: Answer) -> ApiError:
    """Return what a kubelet's answer other than success means to the client."""
    text = answer.text() or f"the kubelet answered {answer.status}"
    reasons = {400: "BadRequest", 403: "Forbidden", 404: "NotFound"}
    if answer.status in reasons:
        return ApiError(answer.status, reasons[answer.status], text)
    return ApiError(500, "InternalError", text)
