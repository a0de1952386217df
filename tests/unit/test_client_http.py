"""The HTTP client against a server that misbehaves on request, over TLS."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from labnet.client.api import Expired, Refused, error_of, path_of
from labnet.client.http import Client, Tls
from labnet.client.kinds import CONFIGMAPS, DEPLOYMENTS, NODES, PODS
from labnet.errors import AlreadyExists, Conflict, LabnetError, NotFound, Unavailable
from tests.conditions import eventually
from tests.etcd_server import free_ports, write_certificates


class Script(BaseHTTPRequestHandler):
    """Answers by path; counts connections and requests on its server."""

    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def log_message(self, *_: object) -> None:
        return

    def handle_one(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        self.server.seen.append((self.command, self.path, self.rfile.read(length)))
        if self.path.startswith("/hang-up-once") and not self.server.hung_up:
            self.server.hung_up = True
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif "watch=true" in self.path:
            self._stream()
        elif self.path == "/text":
            self._answer(500, b"it broke")
        else:
            self._answer(200, json.dumps({"echo": self.headers.get("Authorization")}).encode())
            self.close_connection = self.path == "/then-close"

    do_GET = do_POST = do_DELETE = do_PATCH = handle_one

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        if "resourceVersion=1&" in self.path + "&":
            status = {"code": 410, "reason": "Expired", "message": "too old"}
            self._answer(410, json.dumps(status).encode())
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        event = {"type": "ADDED", "object": {"metadata": {"name": "a"}}}
        line = json.dumps(event).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.server.released.wait(10)
        if self.server.break_off:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    """What the tests look at."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, tls: Tls, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Script)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.cert, tls.key)
        context.load_verify_locations(tls.ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.connections = 0
        self.seen: list[tuple[str, str, bytes]] = []
        self.hung_up = False
        self.released = threading.Event()
        self.break_off = False

    def handle_error(self, *_: object) -> None:
        return

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server_address[1]}"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return write_certificates(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def server(tls: Tls) -> Iterator[Server]:
    found = Server(tls)
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.released.set()
    found.shutdown()
    found.server_close()
    thread.join()


@pytest.fixture
def client(server: Server, tls: Tls) -> Iterator[Client]:
    with Client(server.url, tls, timeout=5) as found:
        yield found


def test_requests_share_one_connection(server: Server, client: Client) -> None:
    for _ in range(5):
        client.request("GET", "/x")
    assert server.connections == 1


def test_threads_at_the_same_time_have_connections_of_their_own(
    server: Server, client: Client
) -> None:
    threads = [threading.Thread(target=client.request, args=("GET", "/x")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.seen) == 8
    client.request("GET", "/x")
    assert server.connections <= 8


def test_an_idle_connection_that_was_closed_is_not_used_even_for_a_post(
    server: Server, client: Client
) -> None:
    client.request("GET", "/then-close")
    eventually(lambda: _post(client))
    assert [method for method, _, _ in server.seen].count("POST") == 1


def _post(client: Client) -> bool:
    return bool(client.request("POST", "/x", body={"a": 1}))


def test_a_connection_that_dies_under_a_get_is_replaced_once(
    server: Server, client: Client
) -> None:
    client.request("GET", "/x")
    client.request("GET", "/hang-up-once")
    assert [path for _, path, _ in server.seen] == ["/x", "/hang-up-once", "/hang-up-once"]


def test_a_post_that_may_have_happened_is_not_repeated(server: Server, client: Client) -> None:
    client.request("GET", "/x")
    with pytest.raises(Unavailable):
        client.request("POST", "/hang-up-once", body={})
    assert len(server.seen) == 2


def test_a_token_is_shown(server: Server, tls: Tls) -> None:
    with Client(server.url, ca=tls.ca, token="t0ken") as client:
        assert client.request("GET", "/x") == {"echo": "Bearer t0ken"}


def test_a_server_of_another_authority_is_not_believed(server: Server, tmp_path: Path) -> None:
    other = write_certificates(tmp_path)
    with Client(server.url, other) as client, pytest.raises(Unavailable, match="certificate"):
        client.request("GET", "/x")


def test_nobody_listening_is_unavailable(tls: Tls) -> None:
    [port] = free_ports(1)
    with Client(f"https://127.0.0.1:{port}", tls) as client, pytest.raises(Unavailable):
        client.get(PODS, "a", "default")


def test_one_can_wait_for_a_server_that_starts_late(tls: Tls) -> None:
    [port] = free_ports(1)
    with Client(f"https://127.0.0.1:{port}", tls) as client:
        stop, ready = threading.Event(), threading.Event()

        def wait() -> None:
            if client.wait_ready(stop):
                ready.set()

        waiter = threading.Thread(target=wait)
        waiter.start()
        late = Server(tls, port)
        serving = threading.Thread(target=late.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        assert ready.wait(10)
        late.shutdown()
        late.server_close()
        stop.set()
        assert not client.wait_ready(stop)
        for thread in (waiter, serving):
            thread.join()


def test_a_watch_takes_over_the_lists_connection(server: Server, client: Client) -> None:
    client.request("GET", "/x")
    with client.watch(PODS, version="7") as events:
        next(events)
        assert server.connections == 1
        client.request("GET", "/x")
        assert server.connections == 2


def test_plain_text_errors_become_messages(client: Client) -> None:
    with pytest.raises(Unavailable, match="it broke"):
        client.request("GET", "/text")


def test_a_body_is_compact_json_of_its_type(server: Server, client: Client) -> None:
    client.patch(CONFIGMAPS, "c", "default", {"data": {"a": None}})
    method, path, body = server.seen[-1]
    assert (method, path) == ("PATCH", "/api/v1/namespaces/default/configmaps/c")
    assert body == b'{"data":{"a":null}}'


def test_a_watch_yields_lines_and_ends_with_the_stream(server: Server, client: Client) -> None:
    with client.watch(PODS, version="7") as events:
        assert next(events).object["metadata"]["name"] == "a"
        server.released.set()
        assert list(events) == []


def test_a_watch_that_breaks_off_ends_too(server: Server, client: Client) -> None:
    server.break_off = True
    with client.watch(PODS, version="7") as events:
        next(events)
        server.released.set()
        assert list(events) == [], "who reads goes on from the last version, as ever"


def test_an_expired_version_is_expired(client: Client) -> None:
    with pytest.raises(Expired, match="too old"), client.watch(PODS, version="1"):
        pass


def test_leaving_a_watch_from_another_thread_ends_it(client: Client) -> None:
    watch = client.watch(PODS, version="7")
    got: list[Any] = []
    reader = threading.Thread(target=lambda: got.extend(watch.__enter__()))
    reader.start()
    eventually(lambda: len(got) == 1)
    watch.__exit__(None, None, None)
    reader.join(5)
    assert not reader.is_alive()


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (422, "Invalid", Refused),
        (403, "Forbidden", Refused),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (504, "Timeout", Unavailable),
    ],
)
def test_a_status_becomes_an_error_with_the_servers_message(
    code: int, reason: str, error: type[LabnetError]
) -> None:
    found = error_of(code, {"reason": reason, "message": "because"})
    assert type(found) is error
    assert found.message == "because"


def test_paths_are_those_of_the_kubernetes_api() -> None:
    assert path_of(NODES) == "/api/v1/nodes"
    assert path_of(PODS) == "/api/v1/pods"
    assert path_of(PODS, "shop", "a", "log") == "/api/v1/namespaces/shop/pods/a/log"
    assert path_of(DEPLOYMENTS, "x", "web") == "/apis/apps/v1/namespaces/x/deployments/web"
