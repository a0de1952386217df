"""The kubelet's own server, port 10250: where the API server fetches logs and runs exec.

``kubectl logs`` and ``kubectl exec`` end here. Whoever connects can run commands in any
pod of the node, and every pod can reach the node's address, so the server wants to see
the one certificate that may: signed by the lab's CA, common name
``kube-apiserver-kubelet-client``. Without any certificate the handshake fails; with
another one the answer is 401.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Thread

from labnet.clock import Clock, parse_rfc3339
from labnet.errors import LabnetError
from labnet.node.kubelet import websocket
from labnet.node.kubelet.exec import Session
from labnet.node.kubelet.http import HEAD_MAX, HttpError, Request, answer, chunk, head, parse
from labnet.node.kubelet.observed import Observed, Run
from labnet.node.kubelet.pipes import Pipes, Wish, pipes
from labnet.node.kubelet.pods import Pods
from labnet.node.runtime import logs
from labnet.node.runtime.logs import Selection
from labnet.node.runtime.pump import LogPump
from labnet.sandbox.pod import Container, Pod

log = logging.getLogger(__name__)

CLIENT_NAME = "kube-apiserver-kubelet-client"
HANDSHAKE_SECONDS = 10.0
FOLLOW_SECONDS = 1.0  # how long a follower sleeps at most between two looks


@dataclass(frozen=True, slots=True)
class Serving:
    """Where to listen and what to show and ask for: paths of PEM files."""

    address: str
    port: int
    cert: str
    key: str
    client_ca: str


@dataclass(frozen=True, slots=True)
class Found:
    """A container that a request is about."""

    pod: Pod
    container: Container
    run: Run | None
    seen: Observed


class Server:
    """Answers the API server, a thread per connection; none while nobody asks."""

    def __init__(
        self,
        serving: Serving,
        pods: Pods,
        pump: LogPump,
        clock: Clock,
        log_root: Path = logs.ROOT,
    ) -> None:
        self._serving, self._pods, self._pump = serving, pods, pump
        self._clock, self._log_root = clock, log_root
        self._listener: socket.socket | None = None

    def start(self) -> int:
        """Listen; return the port."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._serving.cert, self._serving.key)
        context.load_verify_locations(self._serving.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
        listener = socket.create_server((self._serving.address, self._serving.port), backlog=64)
        self._listener = listener
        Thread(target=self._accept, args=(listener, context), name="server", daemon=True).start()
        return int(listener.getsockname()[1])

    def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _accept(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            Thread(target=self._connection, args=(sock, context), daemon=True).start()

    def _connection(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        plain.settimeout(HANDSHAKE_SECONDS)
        try:
            sock = context.wrap_socket(plain, server_side=True)
        except (OSError, ssl.SSLError):
            plain.close()
            return
        with sock:
            try:
                self._serve(sock)
            except HttpError as error:
                self._say(sock, answer(error.code, f"{error.message}\n"))
            except LabnetError as error:
                self._say(sock, answer(500, f"{error.message}\n"))
            except OSError:
                return  # the client went away

    def _say(self, sock: ssl.SSLSocket, data: bytes) -> None:
        with suppress(OSError):
            sock.sendall(data)

    def _serve(self, sock: ssl.SSLSocket) -> None:
        request, rest = _read(sock)
        if _common_name(sock) != CLIENT_NAME:
            raise HttpError(401, "Unauthorized: only the API server may ask")
        match request.path:
            case ("healthz",):
                sock.sendall(answer(200, "ok"))
            case ("pods",):
                items = list(self._pods.objects())
                body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
                sock.sendall(answer(200, json.dumps(body), "application/json"))
            case ("containerLogs", namespace, pod, container):
                self._logs(sock, request, self._find(namespace, pod, container))
            case ("exec", namespace, pod, container):
                self._exec(sock, request, self._find(namespace, pod, container), rest)
            case ("attach" | "portForward" as what, *_):
                raise HttpError(501, f"{what} is not supported by the process runtime")
            case _:
                raise HttpError(404, "404 page not found")

    def _find(self, namespace: str, name: str, container: str) -> Found:
        found = self._pods.find(namespace, name)
        if found is None:
            raise HttpError(404, f'pod "{name}" does not exist')
        pod, seen = found
        every = (*pod.init_containers, *pod.containers)
        wanted = next((c for c in every if c.name == container), None)
        if wanted is None:
            raise HttpError(404, f'container "{container}" not found in pod "{name}"')
        return Found(pod, wanted, seen.last(container), seen)

    # -- logs ------------------------------------------------------------------------------

    def _logs(self, sock: ssl.SSLSocket, request: Request, found: Found) -> None:
        run = self._run_for_logs(request, found)
        path = logs.path_of_process(self._log_root, run.process)
        wish = self._selection(request)
        if not path.exists():
            raise HttpError(404, f"the log of {found.container.name} is not there")
        sock.settimeout(60.0)
        sock.sendall(head(200, "text/plain", "Transfer-Encoding: chunked"))
        follower = logs.Follower(path)
        try:
            sent = self._send(sock, logs.selected(follower.existing(), wish))
            if request.flag("follow"):
                self._follow(sock, follower, path, wish, sent)
        finally:
            follower.close()
        sock.sendall(chunk(b""))

    def _run_for_logs(self, request: Request, found: Found) -> Run:
        name, pod = found.container.name, found.pod.name
        runs = found.seen.runs.get(name, ())
        if request.flag("previous"):
            if len(runs) < 2:
                message = f'previous terminated container "{name}" in pod "{pod}" not found'
                raise HttpError(400, message)
            return runs[-2]
        if not runs:
            waiting = found.seen.waiting.get(name)
            reason = waiting.reason if waiting else "ContainerCreating"
            message = f'container "{name}" in pod "{pod}" is waiting to start: {reason}'
            raise HttpError(400, message)
        return runs[-1]

    def _selection(self, request: Request) -> Selection:
        since = None
        if (seconds := request.number("sinceSeconds")) is not None:
            since = self._clock.now() - timedelta(seconds=seconds)
        elif text := request.last("sinceTime"):
            try:
                since = parse_rfc3339(text)
            except ValueError as error:
                raise HttpError(400, f"sinceTime: {text!r} is no RFC 3339 time") from error
        return Selection(
            request.number("tailLines"),
            since,
            request.number("limitBytes"),
            request.flag("timestamps"),
        )

    def _follow(
        self,
        sock: ssl.SSLSocket,
        follower: logs.Follower,
        path: Path,
        wish: Selection,
        sent: int,
    ) -> None:
        """Send what is added until the container has ended or the client is gone."""
        while wish.limit is None or sent < wish.limit:
            over = self._pump.ended(path)  # asked before reading: nothing can slip between
            left = None if wish.limit is None else wish.limit - sent
            more = Selection(limit=left, timestamps=wish.timestamps)
            sent += self._send(sock, logs.selected(follower.new(), more))
            if over or _gone(sock):
                return
            self._pump.wait(FOLLOW_SECONDS)

    def _send(self, sock: ssl.SSLSocket, pieces: Iterable[bytes]) -> int:
        data = b"".join(pieces)
        for start in range(0, len(data), 65536):
            sock.sendall(chunk(data[start : start + 65536]))
        return len(data)

    # -- exec ------------------------------------------------------------------------------

    def _exec(self, sock: ssl.SSLSocket, request: Request, found: Found, rest: bytes) -> None:
        key = request.headers.get("sec-websocket-key", "")
        protocol = websocket.chosen(request.headers.get("sec-websocket-protocol", ""))
        if "websocket" not in request.headers.get("upgrade", "").lower() or not key:
            raise HttpError(400, "exec needs a WebSocket: unable to upgrade this request")
        if protocol is None:
            raise HttpError(400, f"exec speaks {' and '.join(websocket.PROTOCOLS)}")
        wish = _wish(request)
        if not wish.argv:
            raise HttpError(400, "you must specify at least 1 command")
        run = found.run
        if run is None or not run.running:
            raise HttpError(400, f"container {found.container.name} is not running")
        session = Session(sock, wish, self._pipes(wish, run))
        sock.sendall(websocket.upgrade_answer(key, protocol))
        self._run_command(session, found, run, rest)

    def _pipes(self, wish: Wish, run: Run) -> Pipes:
        ptmx = self._pods.parts.runtime.ptmx(run.process.id) if wish.tty else ""
        try:
            return pipes(wish, ptmx)
        except OSError as error:
            raise HttpError(500, f"no terminal in the container: {error.strerror}") from error

    def _run_command(self, session: Session, found: Found, run: Run, rest: bytes) -> None:
        starter, runtime = self._pods.parts.starter, self._pods.parts.runtime
        wish = session.wish
        address = found.seen.address or starter.machine.address
        try:
            spec = starter.exec_spec(
                found.pod, found.container, run.process.id, address, wish.argv, tty=wish.tty
            )
            session.begin(rest)
            process = runtime.exec(spec, session.pipes.stdio)
        except LabnetError as error:
            session.refuse(error.message)
            return
        finally:
            session.pipes.close_theirs()
        session.run(process)


def _wish(request: Request) -> Wish:
    return Wish(
        tuple(request.query.get("command", ())),
        stdin=request.flag("input") or request.flag("stdin"),
        stdout=request.flag("output") or request.flag("stdout"),
        stderr=request.flag("error") or request.flag("stderr"),
        tty=request.flag("tty"),
    )


def _read(sock: ssl.SSLSocket) -> tuple[Request, bytes]:
    """Return the request, and what came behind it."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > HEAD_MAX:
            raise HttpError(400, "the request's head is too long")
        received = sock.recv(16384)
        if not received:
            raise HttpError(400, "the request is incomplete")
        data += received
    text, _, rest = data.partition(b"\r\n\r\n")
    request = parse(text)
    if request.method not in ("GET", "POST"):
        raise HttpError(405, f"{request.method} is not allowed")
    return request, rest


def _common_name(sock: ssl.SSLSocket) -> str:
    certificate = sock.getpeercert() or {}
    subject = dict(pair for rdn in certificate.get("subject", ()) for pair in rdn)  # type: ignore[misc]
    return str(subject.get("commonName", ""))


def _gone(sock: ssl.SSLSocket) -> bool:
    """Return whether the client has closed the connection; it has nothing more to say."""
    timeout = sock.gettimeout()
    sock.settimeout(0.0)
    try:
        return not sock.recv(1)
    except (ssl.SSLWantReadError, BlockingIOError):
        return False
    except OSError:
        return True
    finally:
        sock.settimeout(timeout)
