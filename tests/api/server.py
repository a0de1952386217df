"""An API server on a port of 127.0.0.1, with TLS, for tests; and a plain client of it."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Self

from labnet.apiserver.auth import Authenticator, parse_tokens
from labnet.apiserver.reservations import Ranges
from labnet.apiserver.server import ApiServer
from labnet.apiserver.tls import server_context
from labnet.store.model import Store
from labnet.store.tls import Tls

TOKEN = "a-token-of-the-test"
RANGES = Ranges(
    IPv4Network("10.0.0.0/12"), (30000, 32767), {"default/my-nginx": IPv4Address("10.11.97.177")}
)
KUBECTL = Path(sys.executable).with_name("kubectl")


@dataclass(frozen=True, slots=True)
class Answer:
    """One response."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body, parsed."""
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed


class Watch:
    """An open watch: iterate over its events."""

    def __init__(self, response: http.client.HTTPResponse, sock: socket.socket) -> None:
        self.response = response
        self.sock = sock

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while line := self.response.readline():
            yield json.loads(line)

    def take(self, count: int) -> list[tuple[str, str]]:
        """Return type and name of the next ``count`` events."""
        events = iter(self)
        found = [next(events) for _ in range(count)]
        return [(e["type"], e["object"]["metadata"].get("name", "")) for e in found]

    def close(self) -> None:
        """Hang up."""
        self.response.close()
        self.sock.close()


class RunningServer:
    """An API server in threads of this process. A context manager."""

    def __init__(self, store: Store, tls: Tls, folder: Path) -> None:
        self.store, self.tls = store, tls
        self._folder = folder
        listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = listener.getsockname()[1]
        self.server = ApiServer(
            store,
            [listener],
            server_context(tls.cert, tls.key, tls.ca),
            authenticator=Authenticator(parse_tokens([f'{TOKEN},tester,7,"testers,friends"'])),
            ranges=RANGES,
            address=("127.0.0.1", self.port),
            kubelet_tls=tls,
        )
        self._thread = threading.Thread(target=self.server.serve)
        self._local = threading.local()
        self._opened: list[http.client.HTTPSConnection] = []
        self._watches: list[Watch] = []

    def __enter__(self) -> Self:
        self.server.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.close()
        for connection in self._opened:
            connection.close()
        self.server.stop()
        self._thread.join()
        self.server.__exit__()

    def connect(self, *, certificate: bool = False) -> http.client.HTTPSConnection:
        """Return a new connection; with a client certificate or without."""
        context = ssl.create_default_context(cafile=self.tls.ca)
        if certificate:
            context.load_cert_chain(self.tls.cert, self.tls.key)
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=context, timeout=20
        )
        self._opened.append(connection)
        return connection

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = TOKEN,
        **headers: str,
    ) -> Answer:
        """Ask, on this thread's kept-alive connection."""
        if not hasattr(self._local, "connection"):
            self._local.connection = self.connect()
        connection: http.client.HTTPSConnection = self._local.connection
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, data, sent)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())

    def get(self, path: str, **headers: str) -> Answer:
        """GET."""
        return self.request("GET", path, **headers)

    def post(self, path: str, body: object, **headers: str) -> Answer:
        """POST."""
        return self.request("POST", path, body, **headers)

    def watch(self, path: str, **headers: str) -> Watch:
        """Open a watch, on a connection of its own."""
        connection = self.connect()
        sent = {"Authorization": f"Bearer {TOKEN}", **headers}
        connection.request("GET", path, headers=sent)
        sock = connection.sock
        assert sock is not None
        response = connection.getresponse()
        assert response.status == 200, response.read()
        watch = Watch(response, sock)
        self._watches.append(watch)
        return watch

    def kubectl(self, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        """Run the real kubectl; return what it printed."""
        done = subprocess.run(
            [str(KUBECTL), "--kubeconfig", str(self.kubeconfig()), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={"HOME": str(self._folder), "PATH": "/usr/bin:/bin"},
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def kubeconfig(self) -> Path:
        """Return the path of a kubeconfig for this server."""
        path = self._folder / "kubeconfig"
        server = f"https://127.0.0.1:{self.port}"
        cluster = {"server": server, "certificate-authority": self.tls.ca}
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "test", "cluster": cluster}],
                    "users": [{"name": "test", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                    "current-context": "test",
                }
            )
        )
        return path


def config_map(name: str, **data: str) -> dict[str, Any]:
    """Return a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, node: str = "", **labels: str) -> dict[str, Any]:
    """Return a Pod of one container, on ``node``."""
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "nginx"}]}
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def service(name: str, **spec: Any) -> dict[str, Any]:
    """Return a Service with port 80."""
    whole = {"ports": [{"port": 80}], "selector": {"app": name}, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": whole}
