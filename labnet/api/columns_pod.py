"""The columns of a Pod. STATUS is the one word everybody looks at, and not a field.

It starts as the phase and is overruled by whatever explains more: a waiting container's
reason (``CrashLoopBackOff``, ``ImagePullBackOff``), a terminated one's (``Completed``,
``Error``), an init container that is not done (``Init:1/2``), and deletion
(``Terminating``).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from labnet.api.columns import AGE, NAME, NONE, Column, at, path
from labnet.api.duration import since
from labnet.api.meta import Object


@dataclass(slots=True)
class _Tally:
    """What is gathered while walking over a pod's containers."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""
    running: bool = False

    def count(self, status: Object) -> None:
        """Add one container's restarts, and when the last one was."""
        self.restarts += status.get("restartCount") or 0
        finished = at(status, "lastState", "terminated", "finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)


def summary(pod: Object) -> _Tally:
    """Return STATUS, ready containers and restarts of ``pod``."""
    status = pod.get("status") or {}
    tally = _Tally(status.get("reason") or status.get("phase") or "")
    if any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated"
        for c in status.get("conditions") or ()
    ):
        tally.reason = "SchedulingGated"
    sidecars = _sidecars(pod)
    kept = _Tally("")  # what sidecars restarted counts on when the pod is up
    initializing = _init_containers(pod, tally, sidecars, kept)
    if not initializing or _condition(pod, "Initialized"):
        tally.restarts, tally.last_restart = kept.restarts, kept.last_restart
        _containers(pod, tally)
    if at(pod, "metadata", "deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            tally.reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            tally.reason = "Terminating"
    return tally


def _sidecars(pod: Object) -> set[Any]:
    """Return the names of the init containers that keep running."""
    declared = at(pod, "spec", "initContainers") or ()
    return {c.get("name") for c in declared if c.get("restartPolicy") == "Always"}


def _condition(pod: Object, kind: str) -> bool:
    conditions = at(pod, "status", "conditions") or ()
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def _init_containers(pod: Object, tally: _Tally, sidecars: set[Any], kept: _Tally) -> bool:
    """Look at the init containers in order; True at the first that is not done."""
    for n, status in enumerate(at(pod, "status", "initContainerStatuses") or ()):
        sidecar = status.get("name") in sidecars
        tally.count(status)
        if sidecar:
            kept.count(status)
        terminated, waiting = at(status, "state", "terminated"), at(status, "state", "waiting")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and status.get("started"):
            tally.ready += bool(status.get("ready"))
            continue
        if terminated is not None:
            tally.reason = "Init:" + _ended(terminated)
        elif waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            tally.reason = "Init:" + waiting["reason"]
        else:
            tally.reason = f"Init:{n}/{len(at(pod, 'spec', 'initContainers') or ())}"
        return True
    return False


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _containers(pod: Object, tally: _Tally) -> None:
    for status in reversed(at(pod, "status", "containerStatuses") or []):
        tally.count(status)
        state = status.get("state") or {}
        waiting, terminated = state.get("waiting"), state.get("terminated")
        if waiting and waiting.get("reason"):
            tally.reason = waiting["reason"]
        elif terminated is not None:
            tally.reason = _ended(terminated)
        elif status.get("ready") and state.get("running") is not None:
            tally.running = True
            tally.ready += 1
    if tally.reason == "Completed" and tally.running:
        tally.reason = "Running" if _condition(pod, "Ready") else "NotReady"


def _ready(pod: Object, _: datetime) -> str:
    total = len(at(pod, "spec", "containers") or ()) + len(_sidecars(pod))
    return f"{summary(pod).ready}/{total}"


def _status(pod: Object, _: datetime) -> str:
    return summary(pod).reason


def _restarts(pod: Object, now: datetime) -> str:
    tally = summary(pod)
    if tally.restarts and tally.last_restart:
        return f"{tally.restarts} ({since(tally.last_restart, now)} ago)"
    return str(tally.restarts)


def _address(pod: Object, _: datetime) -> str:
    addresses = at(pod, "status", "podIPs") or ({"ip": at(pod, "status", "podIP")},)
    return addresses[0].get("ip") or NONE


def _gates(pod: Object, _: datetime) -> str:
    gates = at(pod, "spec", "readinessGates") or ()
    if not gates:
        return NONE
    passed = sum(_condition(pod, gate.get("conditionType", "")) for gate in gates)
    return f"{passed}/{len(gates)}"


POD = (
    NAME,
    Column("Ready", _ready, description="Containers that are ready, of all there are."),
    Column("Status", _status, description="What the pod is doing, in one word."),
    Column("Restarts", _restarts, description="How often its containers were restarted."),
    AGE,
    Column("IP", _address, priority=1, description="The pod's address."),
    Column("Node", path("spec", "nodeName", default=NONE), priority=1),
    Column("Nominated Node", path("status", "nominatedNodeName", default=NONE), priority=1),
    Column("Readiness Gates", _gates, priority=1),
)
