"""The pod workers: look at one pod, do what is to be done, report what is the case.

Whatever happens only puts a pod's uid into the queue. A worker takes it out, reads the
pod, the runtime's list and the probes' findings, asks :mod:`decide` for the steps, does
them, looks again until there are none, and sends the status if it changed. A second
look right after the first does nothing.
"""

from __future__ import annotations

import logging
import shutil
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any

from labnet.api.meta import Object
from labnet.client.api import Api
from labnet.client.kinds import PODS
from labnet.client.workqueue import WorkQueue
from labnet.clock import Clock
from labnet.errors import Conflict, LabnetError, NotFound
from labnet.node.kubelet import decide, status, volumes
from labnet.node.kubelet.decide import DropSandbox, MakeSandbox, Start, Stop, TearDown, Wait
from labnet.node.kubelet.events import Event, Recorder, Subject
from labnet.node.kubelet.observed import Observed, Run, Waiting, observed
from labnet.node.kubelet.prober import Prober, Target
from labnet.node.kubelet.record import Record, Stopping
from labnet.node.kubelet.starter import NotYet, Starter
from labnet.node.network import PodNetwork
from labnet.node.runtime import logs
from labnet.node.runtime.model import Runtime
from labnet.sandbox import planner
from labnet.sandbox.pod import Action, Container, Pod, parse
from labnet.sandbox.spec import Process

log = logging.getLogger(__name__)

PASSES_MAX = 20  # steps that follow from each other in one look; the rest waits its turn
PULL_BACKOFF, PULL_BACKOFF_MAX = 10.0, 300.0
RETRY_CONFIG, RETRY_SANDBOX, RETRY_API = 5.0, 1.0, 1.0
RUNS_KEPT = 2  # the present run and the one before it, for lastState and `logs -p`

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
    pool: Executor  # for hooks, which may take as long as they like
    hook: Hook
    volume_root: Path = volumes.ROOT
    log_root: Path = logs.ROOT


@dataclass(slots=True)
class Pods:
    """All pods of the node; ``changed`` and ``wake`` from any thread."""

    parts: Parts
    queue: WorkQueue[str]
    _lock: Lock = field(default_factory=Lock)
    _objects: dict[str, Object] = field(default_factory=dict)  # by uid
    _uids: dict[str, str] = field(default_factory=dict)  # namespace/name → uid
    _records: dict[str, Record] = field(default_factory=dict)

    # -- what wakes a worker ---------------------------------------------------------------

    def changed(self, key: str, pod: Object | None) -> None:
        """Take note that ``namespace/name`` is now ``pod``, or nothing."""
        uid = pod["metadata"]["uid"] if pod else None
        with self._lock:
            before = self._uids.get(key)
            if before is not None and before != uid:
                self._objects.pop(before, None)
                del self._uids[key]
            if pod is not None and uid is not None:
                self._objects[uid], self._uids[key] = pod, uid
        for one in {before, uid} - {None}:
            self.queue.add(str(one))

    def wake(self, uid: str) -> None:
        """Have a pod looked at."""
        self.queue.add(uid)

    def wake_all(self) -> None:
        """Have every pod looked at, and every process without one."""
        with self._lock:
            uids = set(self._objects)
        uids |= {dict(p.labels).get(planner.POD_UID, "") for p in self.parts.runtime.processes()}
        for uid in sorted(uids - {""}):
            self.queue.add(uid)

    def exited(self, process: Process) -> None:
        """Take note of an ended process."""
        self.parts.prober.forget(process.id)
        if uid := dict(process.labels).get(planner.POD_UID):
            self.queue.add(uid)

    # -- the worker ------------------------------------------------------------------------

    def work(self) -> None:
        """Look at pods until the queue is closed."""
        while (uid := self.queue.take()) is not None:
            self._work_on(uid)

    def work_off(self) -> None:
        """Look at every pod that is due, and return (tests)."""
        while (uid := self.queue.take(timeout=0)) is not None:
            self._work_on(uid)

    def _work_on(self, uid: str) -> None:
        try:
            self.sync(uid)
        except LabnetError as error:
            log.warning("pod %s: %s", uid, error)
            self._later(uid, RETRY_API)
        except Exception:  # one pod's trouble must not stop the others
            log.exception("pod %s", uid)
            self._later(uid, RETRY_CONFIG)
        finally:
            self.queue.done(uid)

    def sync(self, uid: str) -> None:
        """Do everything for one pod that can be done now, and report it."""
        with self._lock:
            found = self._objects.get(uid)
            record = self._records.setdefault(uid, Record())
        pod = parse(found) if found else self._orphan(uid)
        if pod is None:
            self._drop(uid)
            return
        for _ in range(PASSES_MAX):
            seen = self._observe(pod, record)
            now = self.parts.clock.now()
            steps = decide.steps(pod, seen, now, wanted=found is not None)
            acted = [self._do(step, pod, seen, record) for step in steps]
            if not any(acted):
                break
        if found is not None and uid in self._records:
            self._report(pod, found, record)

    def _orphan(self, uid: str) -> Pod | None:
        """Return what can be known of a pod that the API server no longer has."""
        labels = next((dict(p.labels) for p in self._processes(uid)), None)
        if labels is None:
            return None
        meta = {
            "uid": uid,
            "namespace": labels[planner.NAMESPACE],
            "name": labels[planner.POD_NAME],
        }
        return parse({"metadata": meta, "spec": {"terminationGracePeriodSeconds": 0}})

    def _processes(self, uid: str) -> list[Process]:
        own = (planner.POD_UID, uid)
        return [p for p in self.parts.runtime.processes() if own in p.labels]

    def _observe(self, pod: Pod, record: Record) -> Observed:
        seen = observed(
            self._processes(pod.uid),
            waiting=record.waiting,
            sandbox_waiting=record.sandbox_waiting,
        )
        seen = replace(seen, address=self._address(pod, seen, record))
        self._probe(pod, seen)
        ids = tuple(run.process.id for _, run in seen.running)
        return replace(seen, health=self.parts.prober.health(ids))

    def _address(self, pod: Pod, seen: Observed, record: Record) -> Any:
        if seen.sandbox is None:
            return None
        sandbox = seen.sandbox.id
        if sandbox not in record.addresses:
            if pod.host_network:
                record.addresses[sandbox] = self.parts.starter.machine.address
            elif attached := self.parts.network.check(sandbox):
                record.addresses[sandbox] = attached.ip
        return record.addresses.get(sandbox)

    def _probe(self, pod: Pod, seen: Observed) -> None:
        """See that every container that runs is being probed; a known one costs nothing."""
        for container in pod.containers:
            run = seen.current(container.name)
            if run is not None and run.running and seen.address is not None:
                self.parts.prober.watch(self._target(pod, container, run, seen))

    def _target(self, pod: Pod, container: Container, run: Run, seen: Observed) -> Target:
        return Target(pod, container, run.process.id, str(seen.address))

    # -- steps: each returns whether there is a reason to look again at once ---------------

    def _do(self, step: decide.Step, pod: Pod, seen: Observed, record: Record) -> bool:
        match step:
            case MakeSandbox(attempt):
                return self._make_sandbox(pod, attempt, record)
            case DropSandbox(sandbox):
                self.parts.runtime.signal(sandbox, signal.SIGKILL)
                return False
            case Start():
                return self._start(step, pod, seen, record)
            case Stop():
                return self._stop(step, pod, seen, record)
            case TearDown(forget):
                return self._tear_down(pod, seen, forget=forget)
            case Wait():
                return self._wait(step, pod, record)

    def _make_sandbox(self, pod: Pod, attempt: int, record: Record) -> bool:
        if self._too_soon(pod.uid, record.sandbox_waiting):
            return False
        try:
            address = self.parts.starter.sandbox(pod, attempt)
        except NotYet as error:
            waiting = self._waiting(error, record.sandbox_waiting, RETRY_SANDBOX)
            record.sandbox_waiting = waiting
            if error.reason != "NetworkNotReady":
                self._event(pod, "Warning", error.reason, f"Failed to create pod sandbox: {error}")
            self._until(pod.uid, waiting.retry_at)
            return False
        record.sandbox_waiting = None
        record.addresses[planner.sandbox_id(pod, attempt)] = address
        return True

    def _start(self, step: Start, pod: Pod, seen: Observed, record: Record) -> bool:
        name, sandbox = step.container.name, seen.sandbox
        if sandbox is None or self._back_off(step.container, pod, record):
            return False
        try:
            process = self.parts.starter.container(
                pod,
                step.container,
                sandbox=sandbox.id,
                address=seen.address or self.parts.starter.machine.address,
                attempt=step.attempt,
                backoff=step.backoff,
            )
        except NotYet as error:
            self._not_started(step.container, pod, error, record)
            return False
        record.waiting.pop(name, None)
        self._tell_started(pod, step.container)
        self._forget_old_runs(seen, name)
        self._after_start(pod, step.container, process, seen)
        return True

    def _tell_started(self, pod: Pod, container: Container) -> None:
        image, name = container.image, container.name
        pulled = f'Container image "{image}" already present on machine'
        self._event(pod, "Normal", "Pulled", pulled, container)
        self._event(pod, "Normal", "Created", f"Created container: {name}", container)
        self._event(pod, "Normal", "Started", f"Started container {name}", container)

    def _after_start(
        self, pod: Pod, container: Container, process: Process, seen: Observed
    ) -> None:
        if container.post_start is None:
            return
        target = Target(pod, container, process.id, str(seen.address))
        if wrong := self.parts.hook(target, container.post_start):
            self._event(pod, "Warning", "FailedPostStartHook", wrong, container)
            self.parts.runtime.signal(process.id, signal.SIGKILL)

    def _back_off(self, container: Container, pod: Pod, record: Record) -> bool:
        """Whether a container that could not be started must wait; say so once."""
        waiting = record.waiting.get(container.name)
        if not self._too_soon(pod.uid, waiting) or waiting is None:
            return False
        if waiting.reason == "ErrImagePull":
            message = f'Back-off pulling image "{container.image}": {waiting.message}'
            record.waiting[container.name] = replace(
                waiting, reason="ImagePullBackOff", message=message
            )
            self._event(
                pod, "Normal", "BackOff", f'Back-off pulling image "{container.image}"', container
            )
        return True

    def _not_started(self, container: Container, pod: Pod, error: NotYet, record: Record) -> None:
        pull = error.reason in ("ErrImagePull", "InvalidImageName")
        before = record.waiting.get(container.name)
        waiting = self._waiting(error, before, PULL_BACKOFF if pull else RETRY_CONFIG)
        record.waiting[container.name] = waiting
        message = (
            f'Failed to pull image "{container.image}": {error}' if pull else f"Error: {error}"
        )
        self._event(pod, "Warning", "Failed", message, container)
        if error.reason == "ErrImagePull":
            self._later(pod.uid, RETRY_API)  # the next look says ImagePullBackOff
        self._until(pod.uid, waiting.retry_at)

    def _waiting(self, error: NotYet, before: Waiting | None, first: float) -> Waiting:
        failures = before.failures + 1 if before else 1
        pause = min(first * 2 ** (failures - 1), PULL_BACKOFF_MAX)
        if error.reason == "NetworkNotReady":
            pause = RETRY_SANDBOX
        now = self.parts.clock.monotonic()
        return Waiting(error.reason, error.message, now + pause, failures)

    def _too_soon(self, uid: str, waiting: Waiting | None) -> bool:
        """Whether it is too early to try again; then the pod comes back in time."""
        if waiting is None or self.parts.clock.monotonic() >= waiting.retry_at:
            return False
        self._until(uid, waiting.retry_at)
        return True

    def network_ready(self) -> None:
        """Try again at once what only waited for the network."""
        with self._lock:
            records = list(self._records.values())
        for record in records:
            waiting = record.sandbox_waiting
            if waiting is not None and waiting.reason == "NetworkNotReady":
                record.sandbox_waiting = replace(waiting, retry_at=0.0)
        self.wake_all()

    def _wait(self, step: Wait, pod: Pod, record: Record) -> bool:
        left = (step.until - self.parts.clock.now()) / timedelta(seconds=1)
        self._later(pod.uid, max(0.0, left))
        if step.run.process.id not in record.told:
            record.told.add(step.run.process.id)
            name = step.container.name
            message = (
                f"Back-off restarting failed container {name} in pod "
                f"{pod.name}_{pod.namespace}({pod.uid})"
            )
            self._event(pod, "Warning", "BackOff", message, step.container)
        return False

    def _stop(self, step: Stop, pod: Pod, seen: Observed, record: Record) -> bool:
        now, process_id = self.parts.clock.monotonic(), step.run.process.id
        stopping = record.stopping.get(process_id)
        if stopping is None:
            record.stopping[process_id] = stopping = Stopping(now + step.grace)
            self.parts.prober.forget(process_id)
            self._event(pod, "Normal", "Killing", step.message, _named(pod, step.name))
            self._ask_to_end(step, pod, seen)
        stopping.kill_at = min(stopping.kill_at, now + step.grace)
        if now >= stopping.kill_at:
            if not stopping.killed:
                stopping.killed = True
                self.parts.runtime.signal(process_id, signal.SIGKILL)
                return True
        else:
            self._until(pod.uid, stopping.kill_at)
        return False

    def _ask_to_end(self, step: Stop, pod: Pod, seen: Observed) -> None:
        container, process_id = _named(pod, step.name), step.run.process.id
        if step.grace <= 0:
            return
        if container is None or container.pre_stop is None:
            self.parts.runtime.signal(process_id, signal.SIGTERM)
            return
        target, action = self._target(pod, container, step.run, seen), container.pre_stop

        def hook_then_signal() -> None:
            if wrong := self.parts.hook(target, action):
                self._event(pod, "Warning", "FailedPreStopHook", wrong, container)
            self.parts.runtime.signal(process_id, signal.SIGTERM)

        self.parts.pool.submit(hook_then_signal)

    def _tear_down(self, pod: Pod, seen: Observed, *, forget: bool) -> bool:
        for sandbox in seen.sandboxes:
            self.parts.network.delete(sandbox.id)
            if sandbox.exit is None:
                self.parts.runtime.signal(sandbox.id, signal.SIGKILL)
        processes = self._processes(pod.uid)
        if any(p.exit is None for p in processes) or not forget:
            return False  # the end of the sandbox brings us back here
        for process in processes:
            self.parts.runtime.forget(process.id)
        volumes.remove(self.parts.volume_root, pod.uid)
        logs_of_pod = logs.directory(self.parts.log_root, pod.namespace, pod.name, pod.uid)
        shutil.rmtree(logs_of_pod, ignore_errors=True)
        self._delete(pod)
        self._drop(pod.uid)
        return False

    def _delete(self, pod: Pod) -> None:
        if pod.deleted is None:
            return
        try:
            self.parts.api.delete(PODS, pod.name, pod.namespace, grace_seconds=0, uid=pod.uid)
        except (NotFound, Conflict):
            return  # it is gone already, or another of that name is there

    def _forget_old_runs(self, seen: Observed, name: str) -> None:
        for run in seen.runs.get(name, ())[: 1 - RUNS_KEPT or None]:
            self.parts.runtime.forget(run.process.id)
            path = logs.path_of_process(self.parts.log_root, run.process)
            for part in (path, logs.older(path)):
                part.unlink(missing_ok=True)

    def _drop(self, uid: str) -> None:
        with self._lock:
            self._records.pop(uid, None)

    def _later(self, uid: str, seconds: float) -> None:
        self.queue.add_after(uid, seconds)

    def _until(self, uid: str, moment: float) -> None:
        self.queue.add_after(uid, moment - self.parts.clock.monotonic())

    # -- what is told ----------------------------------------------------------------------

    def _report(self, pod: Pod, found: Object, record: Record) -> None:
        """Send the status if the API server's differs."""
        if pod.finished:
            return
        version = int(found["metadata"].get("resourceVersion") or 0)
        known = found.get("status") or {}
        if record.sent is not None and version < record.sent_version:
            known = record.sent  # the watch has not brought our own last write yet
        at = status.Moment(self.parts.clock.now(), self.parts.starter.machine.address, known)
        new = status.status(pod, self._observe(pod, record), at)
        if not status.differs(new, known):
            return
        patch = {"metadata": {"uid": pod.uid}, "status": new}
        try:
            answer = self.parts.api.patch(
                PODS, pod.name, pod.namespace, patch, subresource="status"
            )
        except (NotFound, Conflict):
            return  # the watch will say what became of it
        record.sent = answer.get("status") or new
        record.sent_version = int(answer["metadata"].get("resourceVersion") or 0)

    def _event(
        self, pod: Pod, type_: str, reason: str, message: str, container: Container | None = None
    ) -> None:
        path = ""
        if container is not None:
            group = "spec.initContainers" if container in pod.init_containers else "spec.containers"
            path = f"{group}{{{container.name}}}"
        subject = Subject("Pod", pod.namespace, pod.name, pod.uid, path)
        self.parts.recorder.record(Event(subject, type_, reason, message))

    # -- what the server asks --------------------------------------------------------------

    def find(self, namespace: str, name: str) -> tuple[Pod, Observed] | None:
        """Return a pod and its state, None if it is not on this node."""
        with self._lock:
            found = self._objects.get(self._uids.get(f"{namespace}/{name}", ""))
            record = self._records.get(found["metadata"]["uid"], Record()) if found else Record()
        if found is None:
            return None
        pod = parse(found)
        return pod, self._observe(pod, record)

    def objects(self) -> list[Mapping[str, Any]]:
        """Return every pod of this node as the API server has it."""
        with self._lock:
            return list(self._objects.values())


def _named(pod: Pod, name: str) -> Container | None:
    every = (*pod.init_containers, *pod.containers)
    return next((c for c in every if c.name == name), None)
