"""The pod workers: look at one pod, do what is to be done, report what is the case.

Whatever happens only puts a pod's uid into the queue. A worker takes it out, reads the
pod, the runtime's list and the probes' findings, asks :mod:`decide` for the steps, does
them, looks again until there are none, and sends the status if it changed. A second
look right after the first does nothing.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from threading import Lock
from typing import Any

from labnet.api.meta import Object
from labnet.client.kinds import PODS
from labnet.errors import Conflict, LabnetError, NotFound
from labnet.node.kubelet import decide, status
from labnet.node.kubelet.decide import DropSandbox, MakeSandbox, Start, Stop, TearDown, Wait
from labnet.node.kubelet.ending import Ending
from labnet.node.kubelet.observed import Observed, observed
from labnet.node.kubelet.parts import Parts, target
from labnet.node.kubelet.record import Record
from labnet.node.kubelet.starting import Starting
from labnet.sandbox import planner
from labnet.sandbox.pod import Pod
from labnet.sandbox.pod_object import parse
from labnet.sandbox.spec import Process

log = logging.getLogger(__name__)

PASSES_MAX = 20  # steps that follow from each other in one look; the rest waits its turn
RETRY_API, RETRY_FAULT = 1.0, 5.0


class Pods:
    """All pods of the node; ``changed``, ``wake`` and ``exited`` from any thread."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._starting, self._ending = Starting(parts), Ending(parts)
        self._lock = Lock()
        self._objects: dict[str, Object] = {}  # by uid
        self._uids: dict[str, str] = {}  # namespace/name → uid
        self._records: dict[str, Record] = {}
        self._complete = False  # the first list is in: what is not in it is not wanted

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
            self.wake(str(one))

    def wake(self, uid: str) -> None:
        """Have a pod looked at."""
        self.parts.queue.add(uid)

    def listed(self) -> None:
        """Take note that every pod of the API server's is known by now."""
        self._complete = True
        self.wake_all()

    def wake_all(self) -> None:
        """Have every pod looked at, and every process without one."""
        with self._lock:
            uids = set(self._objects)
        uids |= {dict(p.labels).get(planner.POD_UID, "") for p in self.parts.runtime.processes()}
        for uid in sorted(uids - {""}):
            self.wake(uid)

    def exited(self, process: Process) -> None:
        """Take note of an ended process."""
        self.parts.prober.forget(process.id)
        if uid := dict(process.labels).get(planner.POD_UID):
            self.wake(uid)

    def network_ready(self) -> None:
        """Try again at once what only waited for the network."""
        with self._lock:
            records = list(self._records.values())
        for record in records:
            waiting = record.sandbox_waiting
            if waiting is not None and waiting.reason == "NetworkNotReady":
                record.sandbox_waiting = replace(waiting, retry_at=0.0)
        self.wake_all()

    # -- the worker ------------------------------------------------------------------------

    def work(self) -> None:
        """Look at pods until the queue is shut down."""
        while (uid := self.parts.queue.take()) is not None:
            self._work_on(uid)

    def work_off(self) -> None:
        """Look at every pod that is due, and return."""
        while (uid := self.parts.queue.take(timeout=0)) is not None:
            self._work_on(uid)

    def _work_on(self, uid: str) -> None:
        try:
            self.sync(uid)
        except LabnetError as error:
            log.warning("pod %s: %s", uid, error)
            self.parts.queue.add_after(uid, RETRY_API)
        except Exception:  # one pod's trouble must not stop the others
            log.exception("pod %s", uid)
            self.parts.queue.add_after(uid, RETRY_FAULT)
        finally:
            self.parts.queue.done(uid)

    def sync(self, uid: str) -> None:
        """Do everything for one pod that can be done now, and report it."""
        with self._lock:
            found = self._objects.get(uid)
            if found is None and not self._complete:
                return  # perhaps a pod of an earlier kubelet: `listed` brings it back
            record = self._records.setdefault(uid, Record())
        pod = parse(found) if found else self._orphan(uid)
        if pod is None or self._converge(pod, record, wanted=found is not None):
            with self._lock:
                self._records.pop(uid, None)
        elif found is not None:
            self._report(pod, found, record)

    def _converge(self, pod: Pod, record: Record, *, wanted: bool) -> bool:
        """Take steps until there are none; return whether nothing of the pod is left."""
        for _ in range(PASSES_MAX):
            seen = self._observe(pod, record)
            steps = decide.steps(pod, seen, self.parts.clock.now(), wanted=wanted)
            if isinstance(steps[0] if steps else None, TearDown):
                return self._ending.tear_down(pod, seen, forget=steps[0] == TearDown(True))
            again = [self._do(step, pod, seen, record) for step in steps]
            if not any(again):
                break
        return False

    def _do(self, step: decide.Step, pod: Pod, seen: Observed, record: Record) -> bool:
        """Take one step; return whether there is a reason to look again at once."""
        match step:
            case MakeSandbox(attempt):
                return self._starting.sandbox(pod, attempt, record)
            case DropSandbox(sandbox):
                self.parts.runtime.signal(sandbox, signal.SIGKILL)
            case Start():
                return self._starting.container(step, pod, seen, record)
            case Stop():
                return self._ending.stop(step, pod, seen, record)
            case Wait():
                self._wait(step, pod, record)
        return False

    def _wait(self, step: Wait, pod: Pod, record: Record) -> None:
        left = (step.until - self.parts.clock.now()).total_seconds()
        self.parts.queue.add_after(pod.uid, left)
        if step.run.process.id in record.told:
            return
        record.told.add(step.run.process.id)
        message = (
            f"Back-off restarting failed container {step.container.name} in pod "
            f"{pod.name}_{pod.namespace}({pod.uid})"
        )
        self.parts.event(pod, "Warning", "BackOff", message)

    # -- what is the case ------------------------------------------------------------------

    def _orphan(self, uid: str) -> Pod | None:
        """Return what can be known of a pod that the API server no longer has."""
        labels = next((dict(p.labels) for p in self.parts.processes(uid)), None)
        if labels is None:
            return None
        metadata = {
            "uid": uid,
            "namespace": labels[planner.NAMESPACE],
            "name": labels[planner.POD_NAME],
        }
        return parse({"metadata": metadata, "spec": {}})

    def _observe(self, pod: Pod, record: Record) -> Observed:
        seen = observed(
            self.parts.processes(pod.uid),
            waiting=record.waiting,
            sandbox_waiting=record.sandbox_waiting,
        )
        seen = replace(seen, address=self._address(pod, seen, record))
        self._probe(pod, seen)
        ids = tuple(run.process.id for _, run in seen.running)
        return replace(seen, health=self.parts.prober.health(ids))

    def _address(self, pod: Pod, seen: Observed, record: Record) -> IPv4Address | None:
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
        """See that every container that runs is probed; one that is already costs nothing."""
        for container in pod.containers:
            run = seen.current(container.name)
            if run is not None and run.running and seen.address is not None:
                self.parts.prober.watch(target(pod, container, run, seen.address))

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

    # -- what the server asks --------------------------------------------------------------

    def find(self, namespace: str, name: str) -> tuple[Pod, Observed] | None:
        """Return a pod and its state, None if it is not on this node."""
        with self._lock:
            found = self._objects.get(self._uids.get(f"{namespace}/{name}", ""))
            record = self._records.get(found["metadata"]["uid"]) if found else None
        if found is None:
            return None
        pod = parse(found)
        return pod, self._observe(pod, record or Record())

    def objects(self) -> list[Mapping[str, Any]]:
        """Return every pod of this node as the API server has it."""
        with self._lock:
            return list(self._objects.values())
