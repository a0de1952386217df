"""Ending containers and pods: SIGTERM, patience, SIGKILL, and what is left behind.

A container first gets its preStop hook and SIGTERM, and ``grace`` seconds for both. As
PID 1 of its pid namespace it is asked, not forced: the kernel drops a SIGTERM that it
does not handle, which is why ``sleep`` in a pod takes the whole thirty seconds.
SIGKILL ends it and everything in it. The pod's network goes before its sandbox.
"""

from __future__ import annotations

import logging
import shutil
import signal
from dataclasses import dataclass

from labnet.client.kinds import PODS
from labnet.errors import Conflict, NotFound
from labnet.node.kubelet import volumes
from labnet.node.kubelet.decide import Stop
from labnet.node.kubelet.observed import Observed
from labnet.node.kubelet.parts import Parts, named, target
from labnet.node.kubelet.record import Record, Stopping
from labnet.node.runtime import logs
from labnet.sandbox.pod import Pod

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """Ends what runs; asked again for the same, it only looks at the clock."""

    parts: Parts

    def stop(self, step: Stop, pod: Pod, seen: Observed, record: Record) -> bool:
        """Ask a container to end, or end it when its time is over; True: it was killed."""
        now, process_id = self.parts.clock.monotonic(), step.run.process.id
        stopping = record.stopping.get(process_id)
        if stopping is None:
            record.stopping[process_id] = stopping = Stopping(now + step.grace)
            self.parts.event(pod, "Normal", "Killing", step.message)
            log.info("pod %s: %s, %g s for it", pod.key, step.message, step.grace)
            self._ask(step, pod, seen)
        stopping.kill_at = min(stopping.kill_at, now + step.grace)
        if now < stopping.kill_at:
            self.parts.until(pod.uid, stopping.kill_at)
            return False
        if stopping.killed:
            return False
        stopping.killed = True
        self.parts.runtime.signal(process_id, signal.SIGKILL)
        return True

    def _ask(self, step: Stop, pod: Pod, seen: Observed) -> None:
        container, process_id = named(pod, step.name), step.run.process.id
        if step.grace <= 0:
            return
        if container is None or container.pre_stop is None:
            self.parts.runtime.signal(process_id, signal.SIGTERM)
            return
        # Without its sandbox a container has no address of its own any more.
        address = seen.address or self.parts.starter.machine.address
        at, action = target(pod, container, step.run, address), container.pre_stop

        def hook_then_signal() -> None:
            if wrong := self.parts.hook(at, action):
                self.parts.event(pod, "Warning", "FailedPreStopHook", wrong)
            self.parts.runtime.signal(process_id, signal.SIGTERM)

        self.parts.pool.submit(hook_then_signal)

    def tear_down(self, pod: Pod, seen: Observed, *, forget: bool) -> bool:
        """End network and sandbox, and with ``forget`` everything else; True: all is gone."""
        for sandbox in seen.sandboxes:
            self.parts.network.delete(sandbox.id)
            if sandbox.exit is None:
                self.parts.runtime.signal(sandbox.id, signal.SIGKILL)
        processes = self.parts.processes(pod.uid)
        if any(process.exit is None for process in processes) or not forget:
            return False  # the end of the sandbox brings us back here
        for process in processes:
            self.parts.runtime.forget(process.id)
        volumes.remove(self.parts.volume_root, pod.uid)
        own_logs = logs.directory(self.parts.log_root, pod.namespace, pod.name, pod.uid)
        shutil.rmtree(own_logs, ignore_errors=True)
        self._delete(pod)
        log.info("pod %s: gone", pod.key)
        return True

    def _delete(self, pod: Pod) -> None:
        """Tell the API server that nothing is left; until then the name is taken."""
        if pod.deleted is None:
            return
        try:
            self.parts.api.delete(PODS, pod.name, pod.namespace, grace_seconds=0, uid=pod.uid)
        except (NotFound, Conflict):
            return  # it is gone already, or another of that name is there
