"""What the pod workers share: their tools, and how they name a pod to others.

The workers that start things and those that end things (``starting``, ``ending``) hold the
same :class:`Parts`: the API, the runtime, the network, the probes, the queue. Three views of
a pod are made here for those outside: the reference an event needs, the target a probe
needs, the list of the pod's own processes.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from labnet.api.meta import Object
from labnet.client.api import Api
from labnet.client.workqueue import WorkQueue
from labnet.clock import Clock
from labnet.node.kubelet import volumes
from labnet.node.kubelet.observed import Run
from labnet.node.kubelet.pacing import Recorder
from labnet.node.kubelet.prober import Prober, Target
from labnet.node.kubelet.starter import Starter
from labnet.node.network import PodNetwork
from labnet.node.runtime import logs
from labnet.node.runtime.model import Runtime
from labnet.sandbox import planner
from labnet.sandbox.pod import Action, Container, Pod
from labnet.sandbox.spec import Process

Hook = Callable[[Target, Action], str]  # returns what went wrong, "" if nothing


@dataclass(frozen=True, slots=True)
class Parts:
    """What the pod workers work with."""

    api: Api
    runtime: Runtime
    network: PodNetwork
    starter: Starter
    prober: Prober
    recorder: Recorder
    clock: Clock
    queue: WorkQueue[str]
    pool: Executor  # for hooks, which may take as long as they like
    hook: Hook
    volume_root: Path = volumes.ROOT
    log_root: Path = logs.ROOT

    def event(self, pod: Pod, kind: str, reason: str, message: str) -> None:
        """Tell of something that happened to ``pod``; ``kind`` is Normal or Warning."""
        self.recorder.say(reference(pod), kind, reason, message)

    def until(self, uid: str, moment: float) -> None:
        """Have a pod looked at when the monotonic clock reaches ``moment``."""
        self.queue.add_after(uid, moment - self.clock.monotonic())

    def processes(self, uid: str) -> list[Process]:
        """Return every process of a pod."""
        own = (planner.POD_UID, uid)
        return [process for process in self.runtime.processes() if own in process.labels]


def reference(pod: Pod) -> Object:
    """Return as much of the pod's object as an event about it needs."""
    metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def target(pod: Pod, container: Container, run: Run, address: IPv4Address) -> Target:
    """Return one running container as probes and hooks see it."""
    return Target(pod, container, run.process.id, address)


def named(pod: Pod, name: str) -> Container | None:
    """Return the container of that name, init containers included."""
    every = (*pod.init_containers, *pod.containers)
    return next((container for container in every if container.name == name), None)
