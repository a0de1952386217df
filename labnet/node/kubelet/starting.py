"""Starting as a worker does it: try, tell, and remember when to try again.

A failed start is not retried before its time, however often the pod is looked at: an
image that is not there after 10, 20, 40 … seconds, at most five minutes (meanwhile its
status says ImagePullBackOff), everything else the same from 5 seconds on.
"""

from __future__ import annotations

import logging
import signal
from dataclasses import dataclass, replace

from labnet.node.kubelet.decide import Start
from labnet.node.kubelet.observed import Observed, Run, Waiting
from labnet.node.kubelet.parts import Parts, target
from labnet.node.kubelet.record import Record
from labnet.node.kubelet.starter import NotYet
from labnet.node.runtime import logs
from labnet.sandbox import planner
from labnet.sandbox.pod import Container, Pod
from labnet.sandbox.spec import Process

log = logging.getLogger(__name__)

PULL_BACKOFF, START_BACKOFF, SANDBOX_BACKOFF, BACKOFF_MAX = 10.0, 5.0, 1.0, 300.0
SHOWN_SECONDS = 1.0  # how long a status says ErrImagePull before it says ImagePullBackOff
RUNS_KEPT = 2  # the present run and the one before it, for lastState and `logs -p`


@dataclass(frozen=True, slots=True)
class Starting:
    """Each method returns whether the pod should be looked at again at once."""

    parts: Parts

    def sandbox(self, pod: Pod, attempt: int, record: Record) -> bool:
        """Start the sandbox, unless it is too early."""
        if self._too_soon(pod.uid, record.sandbox_waiting):
            return False
        for dead in range(attempt):
            self.parts.network.delete(planner.sandbox_id(pod, dead))
        try:
            address = self.parts.starter.sandbox(pod, attempt)
        except NotYet as error:
            waiting = self._waiting(error, record.sandbox_waiting, SANDBOX_BACKOFF)
            record.sandbox_waiting = waiting
            if error.reason != "NetworkNotReady":
                message = f"Failed to create pod sandbox: {error.message}"
                self.parts.event(pod, "Warning", error.reason, message)
            self.parts.until(pod.uid, waiting.retry_at)
            return False
        record.sandbox_waiting = None
        log.info("pod %s: sandbox %s has address %s", pod.key, attempt, address)
        record.addresses[planner.sandbox_id(pod, attempt)] = address
        return True

    def container(self, step: Start, pod: Pod, seen: Observed, record: Record) -> bool:
        """Start a container, unless it is too early."""
        name, sandbox = step.container.name, seen.sandbox
        if sandbox is None or self._backs_off(step.container, pod, record):
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
        log.info("pod %s: container %s started, attempt %s", pod.key, name, step.attempt)
        record.waiting.pop(name, None)
        self._started(pod, step.container)
        self._forget_old_runs(seen, name)
        self._after_start(pod, step.container, process, seen)
        return True

    def _started(self, pod: Pod, container: Container) -> None:
        name, tell = container.name, self.parts.event
        pulled = f'Container image "{container.image}" already present on machine'
        tell(pod, "Normal", "Pulled", pulled)
        tell(pod, "Normal", "Created", f"Created container: {name}")
        tell(pod, "Normal", "Started", f"Started container {name}")

    def _after_start(
        self, pod: Pod, container: Container, process: Process, seen: Observed
    ) -> None:
        if container.post_start is None:
            return
        address = seen.address or self.parts.starter.machine.address
        at = target(pod, container, Run(process, 0, 0.0, ""), address)
        if wrong := self.parts.hook(at, container.post_start):
            self.parts.event(pod, "Warning", "FailedPostStartHook", wrong)
            self.parts.runtime.signal(process.id, signal.SIGKILL)

    def _forget_old_runs(self, seen: Observed, name: str) -> None:
        """Keep the run before the one just started, and nothing older."""
        for run in seen.runs.get(name, ())[: -(RUNS_KEPT - 1)]:
            self.parts.runtime.forget(run.process.id)
            path = logs.path_of_process(self.parts.log_root, run.process)
            for part in (path, logs.older(path)):
                part.unlink(missing_ok=True)

    # -- what could not be started ---------------------------------------------------------

    def _backs_off(self, container: Container, pod: Pod, record: Record) -> bool:
        """Whether a container that could not be started must wait; say so once."""
        waiting = record.waiting.get(container.name)
        if waiting is None or not self._too_soon(pod.uid, waiting):
            return False
        shown = self.parts.clock.monotonic() - waiting.since >= SHOWN_SECONDS
        if waiting.reason == "ErrImagePull" and shown:
            text = f'Back-off pulling image "{container.image}"'
            record.waiting[container.name] = replace(
                waiting, reason="ImagePullBackOff", message=f"{text}: {waiting.message}"
            )
            self.parts.event(pod, "Normal", "BackOff", text)
        return True

    def _not_started(self, container: Container, pod: Pod, error: NotYet, record: Record) -> None:
        pull = error.reason in ("ErrImagePull", "InvalidImageName")
        before = record.waiting.get(container.name)
        waiting = self._waiting(error, before, PULL_BACKOFF if pull else START_BACKOFF)
        record.waiting[container.name] = waiting
        message = f"Error: {error.message}"
        if pull:
            message = f'Failed to pull image "{container.image}": {error.message}'
        self.parts.event(pod, "Warning", "Failed", message)
        if error.reason == "ErrImagePull":
            self.parts.queue.add_after(pod.uid, SHOWN_SECONDS)
        self.parts.until(pod.uid, waiting.retry_at)

    def _waiting(self, error: NotYet, before: Waiting | None, first: float) -> Waiting:
        failures = before.failures + 1 if before else 1
        pause = min(first * 2 ** (failures - 1), BACKOFF_MAX)
        if error.reason == "NetworkNotReady":
            pause = SANDBOX_BACKOFF
        now = self.parts.clock.monotonic()
        return Waiting(error.reason, error.message, now, now + pause, failures)

    def _too_soon(self, uid: str, waiting: Waiting | None) -> bool:
        """Whether it is too early to try again; then the pod comes back in time."""
        if waiting is None or self.parts.clock.monotonic() >= waiting.retry_at:
            return False
        self.parts.until(uid, waiting.retry_at)
        return True
