"""What a pod's ``status`` says: phase, conditions, and the state of each container.

Endpoints controllers, ``kubectl get`` and ``kubectl wait`` read nothing else of a pod,
so the words are Kubernetes' own to the letter (``pkg/kubelet/kubelet_pods.go``:
``getPhase``, ``pkg/kubelet/status/generate.go``). A pod is Ready when all its
containers run and their readiness probes agree; only then does it get traffic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from ipaddress import IPv4Address
from typing import Any

from labnet.clock import parse_rfc3339, rfc3339
from labnet.image import catalogue
from labnet.node.kubelet.decide import delay_after
from labnet.node.kubelet.observed import Observed, Run
from labnet.sandbox.pod import Container, Pod

Status = dict[str, Any]
RUNTIME = "process"


@dataclass(frozen=True, slots=True)
class Moment:
    """When and where the status is written, and what it was before."""

    now: datetime
    node_address: IPv4Address
    previous: Mapping[str, Any]  # the status that the API server has


def status(pod: Pod, seen: Observed, at: Moment) -> Status:
    """Return the whole ``status`` of ``pod``."""
    inits = [_container(pod, c, seen, at.now, init=True) for c in pod.init_containers]
    apps = [_container(pod, c, seen, at.now, init=False) for c in pod.containers]
    phase = _phase(pod, seen, inits, apps)
    result: Status = {
        "phase": phase,
        "conditions": _conditions(seen, phase, inits, apps, at),
        "hostIP": str(at.node_address),
        "hostIPs": [{"ip": str(at.node_address)}],
        "startTime": at.previous.get("startTime") or rfc3339(at.now),
        "containerStatuses": apps,
    }
    if inits:
        result["initContainerStatuses"] = inits
    address = at.node_address if pod.host_network else seen.address
    if address is not None:
        result |= {"podIP": str(address), "podIPs": [{"ip": str(address)}]}
    elif old := at.previous.get("podIP"):  # it stays readable after the end
        result |= {"podIP": old, "podIPs": at.previous.get("podIPs", [])}
    return result


def _container(
    pod: Pod, container: Container, seen: Observed, now: datetime, *, init: bool
) -> Status:
    run = seen.last(container.name)
    state = _state(pod, container, seen, now)
    running = "running" in state
    health = seen.health_of(run) if run else None
    name, image_id = _image(container.image)
    return {
        "name": container.name,
        "state": state,
        "lastState": _last_state(container, seen, state),
        "ready": _ready(state, init=init, ready=bool(health and health.ready and health.started)),
        "restartCount": run.attempt if run else 0,
        "image": name,
        "imageID": image_id if run else "",
        "containerID": container_id(run) if run else "",
        "started": running and bool(health and health.started),
    }


def _ready(state: Mapping[str, Any], *, init: bool, ready: bool) -> bool:
    if init:
        return bool(state.get("terminated", {}).get("exitCode") == 0)
    return "running" in state and ready


def container_id(run: Run) -> str:
    """Return the id a user sees, in the form ``runtime://64 hex digits``."""
    return f"{RUNTIME}://{sha256(run.process.id.encode()).hexdigest()}"


def _image(name: str) -> tuple[str, str]:
    try:
        reference, image = catalogue.find(name)
    except catalogue.ImageError:
        return name, ""
    return str(reference), f"{image.repository}@{image.digest}"


def _state(pod: Pod, container: Container, seen: Observed, now: datetime) -> Status:
    run = seen.last(container.name)
    if run is not None and run.running:
        return {"running": {"startedAt": _seconds(run.process.started)}}
    if pod.deleted is None and not pod.finished and (waiting := seen.waiting.get(container.name)):
        return {"waiting": {"reason": waiting.reason, "message": waiting.message}}
    if run is None:
        blocked = pod.init_containers and container in pod.containers
        return {"waiting": {"reason": "PodInitializing" if blocked else "ContainerCreating"}}
    return _crash_loop(pod, container, run, now) or {"terminated": terminated(run)}


def _crash_loop(pod: Pod, container: Container, run: Run, now: datetime) -> Status | None:
    comes_back = pod.restart_policy == "Always" and container in pod.containers
    comes_back |= pod.restart_policy != "Never" and not run.succeeded
    if not comes_back or pod.deleted is not None or pod.finished:
        return None
    delay, exit_ = delay_after(run), run.process.exit
    if exit_ is None or (now - parse_rfc3339(exit_.finished)).total_seconds() >= delay:
        return None
    message = (
        f"back-off {_duration(delay)} restarting failed container={container.name} "
        f"pod={pod.name}_{pod.namespace}({pod.uid})"
    )
    return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _last_state(container: Container, seen: Observed, state: Mapping[str, Any]) -> Status:
    """The end before the present state: of this run while it waits, else of the one before."""
    runs = seen.runs.get(container.name, ())
    ended = [r for r in runs if not r.running]
    if "terminated" in state and ended:
        ended.pop()
    return {"terminated": terminated(ended[-1])} if ended else {}


def terminated(run: Run) -> Status:
    """Return ``state.terminated`` of a run that has ended."""
    exit_ = run.process.exit
    assert exit_ is not None
    return {
        "exitCode": exit_.code,
        "reason": "Completed" if exit_.code == 0 else "Error",
        "startedAt": _seconds(run.process.started),
        "finishedAt": _seconds(exit_.finished),
        "containerID": container_id(run),
    }


def _seconds(moment: str) -> str:
    return rfc3339(parse_rfc3339(moment))


def _phase(pod: Pod, seen: Observed, inits: Sequence[Status], apps: Sequence[Status]) -> str:
    if pod.finished:
        return pod.phase
    if _init_failed(pod, inits):
        return "Failed"
    if any(not s["ready"] for s in inits) and not any(seen.runs.get(s["name"]) for s in apps):
        return "Pending"
    ended = [s["state"].get("terminated") or _after_crash(s) for s in apps]
    if any("waiting" in s["state"] and not end for s, end in zip(apps, ended, strict=True)):
        return "Pending"
    if any("running" in s["state"] for s in apps):
        return "Running"
    if pod.restart_policy == "Always" and pod.deleted is None:
        return "Running"
    if all(end and end["exitCode"] == 0 for end in ended):
        return "Succeeded"
    return "Running" if pod.restart_policy == "OnFailure" and pod.deleted is None else "Failed"


def _init_failed(pod: Pod, inits: Sequence[Status]) -> bool:
    ends = (s["state"].get("terminated") for s in inits)
    return pod.restart_policy == "Never" and any(e and e["exitCode"] != 0 for e in ends)


def _after_crash(status: Mapping[str, Any]) -> Any:
    return status["lastState"].get("terminated") if "waiting" in status["state"] else None


def _conditions(
    seen: Observed,
    phase: str,
    inits: Sequence[Status],
    apps: Sequence[Status],
    at: Moment,
) -> list[Status]:
    """Every condition of the kubelet's, and those of others as they are."""
    unready = [s["name"] for s in apps if not s["ready"]]
    uninitialized = [s["name"] for s in inits if not s["ready"]]
    containers = _verdict(phase, "unready status", "ContainersNotReady", unready)
    initialized = _verdict(
        "Running" if phase != "Failed" or not uninitialized else phase,
        "incomplete status",
        "ContainersNotInitialized",
        uninitialized,
    )
    if phase == "Succeeded":
        initialized = {"status": "True", "reason": "PodCompleted"}
    own = {
        "PodReadyToStartContainers": {"status": _word(seen.sandbox is not None)},
        "Initialized": initialized,
        "Ready": containers,
        "ContainersReady": containers,
        "PodScheduled": {"status": "True"},
    }
    before = {c["type"]: c for c in at.previous.get("conditions") or ()}
    mine = [_transition(name, c, before.get(name), at.now) for name, c in own.items()]
    return mine + [c for name, c in before.items() if name not in own]


def _verdict(phase: str, what: str, reason: str, names: Sequence[str]) -> Status:
    if phase in ("Succeeded", "Failed"):
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        return {"status": "False", "reason": reason}
    if not names:
        return {"status": "True"}
    message = f"containers with {what}: [{' '.join(names)}]"
    return {"status": "False", "reason": reason, "message": message}


def _transition(
    name: str, condition: Status, before: Mapping[str, Any] | None, now: datetime
) -> Status:
    same = before is not None and before.get("status") == condition["status"]
    since = before.get("lastTransitionTime") if same and before else None
    return {"type": name, **condition, "lastTransitionTime": since or rfc3339(now)}


def _word(value: bool) -> str:
    return "True" if value else "False"


def differs(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return whether ``old`` lacks anything that ``new`` says."""
    return any(old.get(key) != value for key, value in new.items())
