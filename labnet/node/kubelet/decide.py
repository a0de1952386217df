"""What is to be done with a pod next: a pure function of what is wanted and what is.

Kubernetes calls it ``computePodActions``. A pod needs its sandbox, then its init
containers one after the other, then all its app containers; one that has ended comes
back according to ``restartPolicy``, at once the first time, after 10 s the second and
twice as long each further time, at most five minutes; ten minutes of life earn a fresh
start. A pod that is to go needs everything stopped, the apps before the sandbox.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from labnet.clock import parse_rfc3339
from labnet.node.kubelet.observed import Observed, Run
from labnet.sandbox.pod import Container, Pod

FIRST_BACKOFF, LONGEST_BACKOFF = 10.0, 300.0
FORGIVEN_AFTER = 2 * LONGEST_BACKOFF  # a run this long starts again without delay


@dataclass(frozen=True, slots=True)
class MakeSandbox:
    """Start the pause process and attach it to the network."""

    attempt: int


@dataclass(frozen=True, slots=True)
class DropSandbox:
    """End a sandbox that never got its address: the kubelet died between the two."""

    id: str


@dataclass(frozen=True, slots=True)
class Start:
    """Start a container; it waits ``backoff`` seconds if it ends soon."""

    container: Container
    attempt: int
    backoff: float


@dataclass(frozen=True, slots=True)
class Stop:
    """SIGTERM, ``grace`` seconds, SIGKILL; asking again changes nothing."""

    name: str
    run: Run
    grace: float
    message: str


@dataclass(frozen=True, slots=True)
class TearDown:
    """Detach the network and end the sandbox: nothing of the pod runs any more."""

    forget: bool  # the pod is gone: drop its volumes and logs, and tell the API server


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do for ``container`` before ``until``: it crashes in a loop."""

    container: Container
    run: Run
    until: datetime


Step = MakeSandbox | DropSandbox | Start | Stop | TearDown | Wait


def steps(pod: Pod, seen: Observed, now: datetime, *, wanted: bool = True) -> tuple[Step, ...]:
    """Return what to do now, in order; () when everything is as it should be.

    ``wanted`` is False for a pod that the API server no longer knows: it is ended
    without grace. A pod with a deletionTimestamp gets the grace period it came with.
    """
    if not wanted or pod.deleted is not None:
        return _end(pod, seen, forget=True, wanted=wanted)
    if pod.finished or _over(pod, seen):
        return _end(pod, seen, forget=False, wanted=True)
    if seen.sandbox is None:
        return _without_sandbox(pod, seen)
    if seen.address is None and not pod.host_network:
        return (DropSandbox(seen.sandbox.id),)
    step = _init_step(pod, seen, now)
    if step is not None:
        return step
    return tuple(s for c in pod.containers for s in _container_step(pod, c, seen, now))


def _end(pod: Pod, seen: Observed, *, forget: bool, wanted: bool) -> tuple[Step, ...]:
    grace = float(pod.grace) if wanted else 0.0
    if seen.running:
        return tuple(Stop(n, r, grace, f"Stopping container {n}") for n, r in seen.running)
    return (TearDown(forget),) if forget or seen.sandbox is not None else ()


def _over(pod: Pod, seen: Observed) -> bool:
    """Whether every container has ended for good (phase Succeeded or Failed)."""
    if pod.restart_policy == "Always":
        return False
    for container in pod.init_containers:
        run = seen.last(container.name)
        if run and not run.running and not run.succeeded and pod.restart_policy == "Never":
            return True
    return all(
        (run := seen.last(c.name)) is not None and not run.running and not _restarts(pod, run)
        for c in pod.containers
    )


def _restarts(pod: Pod, run: Run) -> bool:
    if pod.restart_policy == "OnFailure":
        return not run.succeeded
    return pod.restart_policy == "Always"


def _without_sandbox(pod: Pod, seen: Observed) -> tuple[Step, ...]:
    """The sandbox is not there yet, or has died under its containers."""
    if seen.running:
        message = "Pod sandbox changed, it will be killed and re-created."
        return tuple(Stop(n, r, float(pod.grace), message) for n, r in seen.running)
    last = int(seen.sandboxes[-1].id.rpartition("/")[2]) if seen.sandboxes else -1
    return (MakeSandbox(last + 1),)


def _init_step(pod: Pod, seen: Observed, now: datetime) -> tuple[Step, ...] | None:
    """The step of the first init container that has not succeeded; None: all have."""
    if any(seen.current(c.name) for c in pod.containers):
        return None  # an app container has started, so all of them had succeeded
    for container in pod.init_containers:
        run = seen.current(container.name)
        if run is not None and run.succeeded:
            continue
        if run is not None and run.running:
            return ()
        return _start(container, seen, now)
    return None


def _container_step(
    pod: Pod, container: Container, seen: Observed, now: datetime
) -> tuple[Step, ...]:
    run = seen.current(container.name)
    if run is None:
        return _start(container, seen, now)
    if not run.running:
        return _start(container, seen, now) if _restarts(pod, run) else ()
    if container.hash != run.hash:
        message = f"Container {container.name} definition changed, will be restarted"
        return (Stop(container.name, run, float(pod.grace), message),)
    failed = seen.health_of(run).failed
    if not failed:
        return ()
    probe = container.liveness if failed == "Liveness" else container.startup
    grace = float(probe.grace) if probe and probe.grace is not None else float(pod.grace)
    message = f"Container {container.name} failed {failed.lower()} probe, will be restarted"
    return (Stop(container.name, run, grace, message),)


def _start(container: Container, seen: Observed, now: datetime) -> tuple[Step, ...]:
    last, current = seen.last(container.name), seen.current(container.name)
    attempt = last.attempt + 1 if last else 0
    if current is None:  # first in this sandbox: no crash to wait for
        return (Start(container, attempt, 0.0),)
    delay = delay_after(current)
    until = parse_rfc3339(_finished(current)) + timedelta(seconds=delay)
    if now < until:
        return (Wait(container, current, until),)
    return (Start(container, attempt, next_backoff(delay)),)


def delay_after(run: Run) -> float:
    """Return how many seconds after its end ``run`` may be followed by another."""
    return 0.0 if run.seconds > FORGIVEN_AFTER else run.backoff


def next_backoff(delay: float) -> float:
    """Return the delay that a container started after ``delay`` gets if it ends soon."""
    return min(max(FIRST_BACKOFF, 2 * delay), LONGEST_BACKOFF)


def _finished(run: Run) -> str:
    assert run.process.exit is not None
    return run.process.exit.finished
