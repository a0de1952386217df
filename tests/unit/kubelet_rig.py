"""A node in memory: a kubelet over fakes, driven step by step, with its own clock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from labnet.client.fake import FakeApi
from labnet.client.kinds import EVENTS, PODS
from labnet.clock import FakeClock
from labnet.errors import NotFound
from labnet.kernel.fake import FakeKernel
from labnet.node.kubelet.kubelet import Kubelet, Setting
from labnet.node.kubelet.node import Host, Identity
from labnet.node.network import BridgeNetwork
from labnet.node.runtime.fake import FakeRuntime
from labnet.node.runtime.pump import LogPump
from labnet.plan.ops import Attach
from labnet.sandbox.root import Machine
from labnet.subnet import file
from labnet.subnet.file import SubnetEnv

P = ParamSpec("P")
T = TypeVar("T")
ADDRESS = IPv4Address("192.168.50.11")
SUBNET = SubnetEnv(IPv4Network("10.244.0.0/16"), IPv4Network("10.244.2.0/24"), 1450)
MACHINE = Machine(
    node="node1",
    address=ADDRESS,
    domain="cluster.local",
    cluster_dns=IPv4Address("10.96.0.10"),
    top_links=(("/bin", "usr/bin"), ("/lib", "usr/lib")),
    top_dirs=("/lib64",),
    etc=("/etc/alternatives",),
    python="/usr/bin/python3",
    programs="/srv/labnet/image/programs",
)


class Inline(Executor):
    """Runs what is submitted at once, in the caller's thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class Kernel(FakeKernel):
    """Tells namespaces apart although descriptors' numbers are used again."""

    def attach(self, op: Attach, netns: int) -> None:
        super().attach(op, os.fstat(netns).st_ino)


class Node:
    """One kubelet and everything around it."""

    def __init__(self, state: Path, *, network_ready: bool = True) -> None:
        self.state = state
        self.clock = FakeClock()
        self.api = FakeApi(self.clock)
        self.runtime = FakeRuntime(self.clock)
        self.kernel = Kernel("node1")
        self.identity = Identity("node1", ADDRESS, 10250, {}, (), 40.0, "process://1")
        self.host = Host(2, 4 * 1024 * 1024, "6.18.0", "Debian GNU/Linux 12", "amd64")
        if network_ready:
            self.write_subnet()
        self.restart_kubelet()

    def write_subnet(self) -> None:
        """Do flanneld's part."""
        file.write(self.state / "subnet.env", SUBNET)

    def restart_kubelet(self) -> None:
        """Forget everything that a kubelet's process knows."""
        network = BridgeNetwork(self.kernel, self.state / "subnet.env", self.state / "cni")
        setting = Setting(
            api=self.api,
            runtime=self.runtime,
            network=network,
            pump=LogPump(self.clock),
            clock=self.clock,
            machine=MACHINE,
            host=self.host,
            identity=self.identity,
            volume_root=self.state / "pods",
            log_root=self.state / "log",
        )
        self.runtime.forget_listeners()
        self.kubelet = Kubelet(setting, Inline())
        self._known: set[str] = set()
        self._listed = False

    def create(self, name: str = "web", **spec: Any) -> dict[str, Any]:
        """Create a pod on this node; containers default to one nginx."""
        metadata = {"name": name, "namespace": "default"} | spec.pop("metadata", {})
        spec.setdefault("containers", [container()])
        body = {"nodeName": "node1", "restartPolicy": "Always", **spec}
        made = self.api.create(PODS, {"metadata": metadata, "spec": body})
        self.settle()
        return dict(made)

    def settle(self) -> None:
        """Let the watch bring what happened, and the workers do what is due."""
        for _ in range(5):
            found = {
                f"{o['metadata']['namespace']}/{o['metadata']['name']}": o
                for o in self.api.list(PODS, fields="spec.nodeName=node1").items
            }
            for key in self._known - found.keys():
                self.kubelet.pods.changed(key, None)
            for key, obj in found.items():
                self.kubelet.pods.changed(key, obj)
            self._known = set(found)
            if not self._listed:
                self._listed = True
                self.kubelet.pods.listed()
            self.kubelet.prober.ask_due()
            self.kubelet.pods.work_off()

    def after(self, seconds: float) -> None:
        """Let time pass, in steps short enough for every timer."""
        left = seconds
        while left > 0:
            self.clock.advance(min(0.5, left))
            left -= 0.5
            self.settle()

    def pod(self, name: str = "web") -> dict[str, Any]:
        """Return a pod as the API server has it."""
        return dict(self.api.get(PODS, name, "default"))

    def exists(self, name: str = "web") -> bool:
        """Whether the API server still has the pod."""
        try:
            self.api.get(PODS, name, "default")
        except NotFound:
            return False
        return True

    def state_of(self, pod: str = "web", container: int = 0) -> dict[str, Any]:
        """Return the ``state`` of one container."""
        return dict(self.pod(pod)["status"]["containerStatuses"][container]["state"])

    def waiting(self, pod: str = "web") -> str:
        """Return the reason for which the first container waits, "" if it does not."""
        return str(self.state_of(pod).get("waiting", {}).get("reason", ""))

    def ready(self, name: str = "web") -> bool:
        """Whether the pod's Ready condition is True."""
        return self.condition(name, "Ready").get("status") == "True"

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """Return one condition of a pod."""
        found = self.pod(name)["status"].get("conditions", [])
        return next((dict(c) for c in found if c["type"] == kind), {})

    def running(self) -> list[str]:
        """Return ``container/attempt`` of what runs, sorted."""
        return sorted(
            p.id.split("/", 1)[1]
            for p in self.runtime.processes()
            if p.kind == "container" and p.exit is None
        )

    def end(self, container: str, code: int) -> None:
        """Let the newest run of a container end, and the kubelet see it."""
        found = [p for p in self.runtime.processes() if f"/{container}/" in p.id]
        self.runtime.end(found[-1].id, code)
        self.settle()

    def events(self) -> list[tuple[str, str]]:
        """Return reason and message of every event; once, at the end of a test."""
        self.kubelet.events.close()
        with self.kubelet.recorder:
            pass
        return [(e["reason"], e["message"]) for e in self.api.list(EVENTS, "default").items]


def container(name: str = "web", **more: Any) -> dict[str, Any]:
    """Return a container of image nginx."""
    return {"name": name, "image": "nginx", **more}
