"""What the kubelet's netns tests do *on a node*: functions that PID 1 of a lab runs there.

Each starts a kubelet over the real zygote, kernel and file system, with only the API
server in memory, plays a scene with pods, and returns what it saw as JSON.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from labnet.client.fake import FakeApi
from labnet.client.kinds import EVENTS, PODS
from labnet.clock import SystemClock
from labnet.errors import NotFound
from labnet.kernel.linux import LinuxKernel
from labnet.linux.seqpacket import Client
from labnet.node.kubelet.kubelet import Kubelet, Setting
from labnet.node.kubelet.machine import read_host, read_machine
from labnet.node.kubelet.node import Identity
from labnet.node.kubelet.server import Serving
from labnet.node.network import BridgeNetwork
from labnet.node.runtime.process import ProcessRuntime
from labnet.node.runtime.pump import LogPump
from labnet.sandbox.zygote import Zygote
from labnet.subnet import file
from tests.conditions import eventually
from tests.unit.kubelet_client import Exec, received, upgrade
from tests.unit.kubelet_rig import SUBNET

LOOPBACK = IPv4Address("127.0.0.1")
PKI = Path("/run/labnet/pki")
PORT = 10250
SLEEPS = ("sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait")  # and ends when it is asked to


class Scene:
    """One kubelet of node1, and an API server in memory that outlives it."""

    def __init__(self) -> None:
        file.write(Path("/run/flannel/subnet.env"), SUBNET)
        self.api = FakeApi()
        self.start()

    def start(self) -> None:
        """Start a kubelet; after :meth:`stop`, another one."""
        clock = SystemClock()
        pump = LogPump(clock)
        zygote = Zygote(Client(Path("/run/labnet/zygote.sock")))
        self.runtime = ProcessRuntime(zygote, "node1", clock, pump)
        setting = Setting(
            self.api,
            self.runtime,
            BridgeNetwork(LinuxKernel("node1")),
            pump,
            clock,
            read_machine("node1", LOOPBACK, "cluster.local", None),
            read_host(),
            Identity("node1", LOOPBACK, PORT, {}, (), 40.0, "process://test"),
        )
        self.kubelet = Kubelet(setting)
        self.runtime.start()
        self.kubelet.start(
            Serving(
                str(LOOPBACK), PORT, f"{PKI}/kubelet.crt", f"{PKI}/kubelet.key", f"{PKI}/ca.crt"
            )
        )

    def stop(self) -> None:
        """End the kubelet, as SIGTERM does."""
        self.kubelet.stop()

    def create(self, name: str, image: str = "nginx", **more: Any) -> None:
        """Create a pod with one container."""
        spec = more.pop("spec", {})
        body = {
            "nodeName": "node1",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": name, "image": image, **more}],
            **spec,
        }
        self.api.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": body})

    def ready(self, name: str) -> dict[str, Any]:
        """Wait until a pod is Ready; return it."""

        def condition() -> bool:
            found = self.pod(name).get("status", {}).get("conditions", ())
            return any(c["type"] == "Ready" and c["status"] == "True" for c in found)

        eventually(condition, why=lambda: str(self.pod(name).get("status")))
        return self.pod(name)

    def pod(self, name: str) -> dict[str, Any]:
        """Return a pod."""
        return dict(self.api.get(PODS, name, "default"))

    def state(self, name: str) -> dict[str, Any]:
        """Return the first container's status."""
        found = self.pod(name).get("status", {}).get("containerStatuses", ({},))
        return dict(found[0])

    def delete(self, name: str) -> float:
        """Delete a pod and wait for its end; return how long that took."""
        started = time.monotonic()
        self.api.delete(PODS, name, "default")

        def gone() -> bool:
            try:
                self.pod(name)
            except NotFound:
                return True
            return False

        eventually(gone, why=lambda: str(self.runtime.processes()))
        return time.monotonic() - started

    def connect(self) -> ssl.SSLSocket:
        """Connect to the kubelet's server as the API server does."""
        context = ssl.create_default_context(cafile=f"{PKI}/ca.crt")
        context.load_cert_chain(f"{PKI}/api.crt", f"{PKI}/api.key")
        plain = socket.create_connection((str(LOOPBACK), PORT), 10)
        return context.wrap_socket(plain, server_hostname=str(LOOPBACK))

    def run(self, pod: str, *command: str, tty: bool = False, said: bytes = b"") -> dict[str, Any]:
        """Exec ``command``; return what came out, and the code."""
        flags = {"output": 1, "error": int(not tty), "tty": int(tty), "input": int(bool(said))}
        with self.connect() as sock:
            run = Exec(sock, upgrade(sock, f"/exec/default/{pod}/{pod}", command, flags))
            if tty:
                run.send(4, b'{"Width":99,"Height":33}')
            if said:
                run.send(0, said)
            status = run.run()
        causes = status.get("details", {}).get("causes", ())
        code = int(causes[0]["message"]) if status.get("reason") == "NonZeroExitCode" else 0
        out = run.channels.get(1, b"").decode()
        return {"out": out, "err": run.channels.get(2, b"").decode(), "code": code} | (
            {"error": status["message"]} if status.get("reason") == "InternalError" else {}
        )

    def logs(self, pod: str) -> str:
        """Return a container's log."""
        with self.connect() as sock:
            sock.sendall(f"GET /containerLogs/default/{pod}/{pod} HTTP/1.1\r\n\r\n".encode())
            return b"".join(iter(lambda: received(sock), b"")).decode()


def get(address: str, port: int = 80, path: str = "/") -> str:
    """Return the body of one GET from the node."""
    with socket.create_connection((address, port), 5) as sock:
        sock.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        answer = b"".join(iter(lambda: sock.recv(4096), b""))
    return answer.partition(b"\r\n\r\n")[2].decode()


def cables() -> list[str]:
    """Return the node's ends of pods' cables."""
    return [name for _, name in socket.if_nameindex() if name.startswith("veth")]


@contextmanager
def playing() -> Iterator[Scene]:
    """Play a scene; afterwards no pod is left."""
    scene = Scene()
    try:
        yield scene
    finally:
        for pod in scene.api.list(PODS).items:
            scene.delete(pod["metadata"]["name"])
        scene.stop()


# -- the scenes ----------------------------------------------------------------------------


def serves(_config: Mapping[str, Any]) -> dict[str, Any]:
    """A web server answers at its pod's address and logs who asked."""
    with playing() as scene:
        scene.create("web")
        pod = scene.ready("web")
        page = get(pod["status"]["podIP"])
        eventually(lambda: "GET /" in scene.logs("web"), why=lambda: scene.logs("web"))
        return {"page": page, "log": scene.logs("web"), "ip": pod["status"]["podIP"]}


def commands(config: Mapping[str, Any]) -> dict[str, Any]:
    """Run shell lines in a busybox container; return what each printed."""
    with playing() as scene:
        scene.create("box", "busybox", command=SLEEPS, **config.get("container", {}))
        scene.ready("box")
        return {line: scene.run("box", "sh", "-c", line) for line in config["lines"]}


def executes(_config: Mapping[str, Any]) -> dict[str, Any]:
    """Exec in its varieties."""
    with playing() as scene:
        scene.create("box", "registry.k8s.io/e2e-test-images/agnhost", args=["netexec"])
        scene.ready("box")
        return {
            "code": scene.run("box", "sh", "-c", "exit 7"),
            "terminal": scene.run(
                "box", "sh", "-c", "stty size; tty; test -t 0", tty=True, said=b"go\n"
            ),
            "missing": scene.run("box", "no-such-thing"),
            "built-in": scene.run("box", "/agnhost", "connect", "127.0.0.1:8080"),
            "script": scene.run("box", "sh", "-c", "/agnhost connect 127.0.0.1:1"),
            "variables": scene.run("box", "sh", "-c", "echo $HOSTNAME $LABNET_NODE"),
        }


def restarts(_config: Mapping[str, Any]) -> dict[str, Any]:
    """The kubelet goes and comes back; the pod and its log go on."""
    with playing() as scene:
        script = "trap 'exit 5' TERM; n=0; while :; do echo $n; n=$((n+1)); sleep 0.05; done"
        scene.create("box", "busybox", command=["sh", "-c", script])
        scene.ready("box")
        before = {p.id: p.pid for p in scene.runtime.processes()}
        scene.stop()
        scene.start()
        after = {p.id: p.pid for p in scene.runtime.processes()}
        scene.ready("box")
        lines = len(scene.logs("box").splitlines())
        eventually(
            lambda: len(scene.logs("box").splitlines()) > lines + 2, why=lambda: scene.logs("box")
        )
        container = next(i for i in after if "/box/" in i)
        scene.runtime.signal(container, 15)
        eventually(
            lambda: scene.state("box").get("restartCount") == 1, why=lambda: str(scene.state("box"))
        )
        last = scene.state("box")["lastState"]["terminated"]["exitCode"]
        return {"before": before, "after": after, "last": last}


def ends(_config: Mapping[str, Any]) -> dict[str, Any]:
    """How long ends take, and what is left."""
    with playing() as scene:
        scene.create("web")
        scene.create("box", "busybox", command=["sleep", "1000"])
        scene.ready("web")
        scene.ready("box")
        quick, patient = scene.delete("web"), scene.delete("box")
        left = [p.id for p in scene.runtime.processes()]
        eventually(lambda: not cables(), why=lambda: str(cables()))  # the kernel takes its time
        files = [
            str(p)
            for root in ("/var/log/pods", "/var/lib/kubelet/pods")
            for p in Path(root).glob("*")
        ]
        return {"quick": quick, "patient": patient, "left": left, "files": files}


def probes(_config: Mapping[str, Any]) -> dict[str, Any]:
    """A readiness probe over HTTP, and a liveness probe that gives up."""
    with playing() as scene:
        ready = {"httpGet": {"port": 8080, "path": "/healthz"}, "periodSeconds": 1}
        alive = {
            "exec": {"command": ["test", "!", "-e", "/tmp/broken"]},
            "periodSeconds": 1,
            "failureThreshold": 1,
        }
        scene.create(
            "app",
            "registry.k8s.io/e2e-test-images/agnhost",
            args=["netexec"],
            readinessProbe=ready,
            livenessProbe=alive,
        )
        started = time.monotonic()
        scene.ready("app")
        seconds = time.monotonic() - started
        scene.run("app", "touch", "/tmp/broken")
        eventually(
            lambda: scene.state("app").get("restartCount") == 1, why=lambda: str(scene.state("app"))
        )
        scene.ready("app")
        eventually(
            lambda: any(e["reason"] == "Unhealthy" for e in scene.api.list(EVENTS).items),
            why=lambda: "no event",
        )
        reasons = {e["reason"] for e in scene.api.list(EVENTS).items}
        return {"seconds": seconds, "reasons": sorted(reasons)}


def host_network(_config: Mapping[str, Any]) -> dict[str, Any]:
    """A pod in the node's own network."""
    with playing() as scene:
        scene.create("web", spec={"hostNetwork": True})
        scene.ready("web")
        return {"page": get("127.0.0.1"), "name": scene.run("web", "hostname")["out"].strip()}


def many(config: Mapping[str, Any]) -> dict[str, Any]:
    """Start pods, measure, end them."""
    with playing() as scene:
        started = time.monotonic()
        names = [f"web{number}" for number in range(int(config["pods"]))]
        for name in names:
            scene.create(name)
        for name in names:
            scene.ready(name)
        seconds = time.monotonic() - started
        status = Path("/proc/self/status").read_text().splitlines()
        return {
            "seconds": seconds,
            "rss_kib": next(line for line in status if "VmRSS" in line),
            "threads": len(list(Path("/proc/self/task").iterdir())),
            "cpu": time.process_time(),
            "pid": os.getpid(),
        }
