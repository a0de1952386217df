"""The scheduler at work: mirror, decide, bind; again whenever something changes.

A pass looks at every pending pod. Between a binding and the moment the mirror shows it,
the pod is *assumed* to be where it was put, so that the next pass neither places it
again nor thinks the node emptier than it is. A pod that fits nowhere says so in its
condition PodScheduled and an event, once per reason; any change of a node or a pod
makes the next pass, so nothing is retried by the clock except failed requests.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack

from labnet.api.meta import Object
from labnet.client.api import Api
from labnet.client.events import Recorder
from labnet.client.informer import Informer
from labnet.client.kinds import NODES, PODS, REPLICA_SETS
from labnet.client.views import condition, key_of, uid_of
from labnet.client.workqueue import WorkQueue
from labnet.clock import Clock, SystemClock, rfc3339
from labnet.errors import Conflict, LabnetError, NotFound
from labnet.naming import POD_IP_ANNOTATION
from labnet.scheduler.decide import (
    NAME,
    Decision,
    Snapshot,
    decide,
    is_pending,
    name_of,
    replica_sets_by_uid,
)
from labnet.scheduler.pins import Pins

BINDERS = 8  # bindings under way at a time
_PASS = "pass"  # the queue's only key: one pass looks at everything

log = logging.getLogger(__name__)


class Scheduler:
    """kube-scheduler; ``run`` returns when ``stop`` is set."""

    def __init__(self, api: Api, pins: Pins, clock: Clock | None = None) -> None:
        self._api = api
        self._pins = pins
        self._clock = clock or SystemClock()
        self._queue: WorkQueue[str] = WorkQueue(self._clock)
        self._assumed: dict[str, tuple[str, str]] = {}  # uid -> (node, address)
        self._pods = Informer(api, PODS, self._pod_changed)
        self._nodes = Informer(api, NODES, self._node_changed)
        self._sets = Informer(api, REPLICA_SETS, self._set_changed)

    def run(self, stop: threading.Event) -> None:
        """Schedule until ``stop`` is set."""
        informers = (self._sets, self._nodes, self._pods)
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(BINDERS, "binder"))
            recorder = stack.enter_context(Recorder(self._api, NAME, clock=self._clock))
            worker = threading.Thread(
                target=self._work, args=(pool, recorder), name="scheduler", daemon=True
            )
            for informer in informers:
                stack.enter_context(informer)
            stack.callback(worker.join, 5)
            stack.callback(self._queue.shut_down)
            while not all(i.wait_synced(0.5) for i in informers) and not stop.is_set():
                continue
            self._queue.add(_PASS)
            worker.start()
            stop.wait()

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        """A pod to place, or room that became free."""
        if new is None or is_pending(new) or (old and _room_of(old) != _room_of(new)):
            self._queue.add(_PASS)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        """Anything but a heartbeat."""
        if old is None or new is None or _abilities(old) != _abilities(new):
            self._queue.add(_PASS)

    def _set_changed(self, old: Object | None, new: Object | None) -> None:
        """A pod may wait for its ReplicaSet, to know whether it is pinned."""
        if old is None and self._pins.addresses:
            self._queue.add(_PASS)

    def _work(self, pool: Executor, recorder: Recorder) -> None:
        while self._queue.take() is not None:
            if self._nodes.has_synced and self._pods.has_synced and self._sets.has_synced:
                self._pass(pool, recorder)
            self._queue.done(_PASS)

    def _pass(self, pool: Executor, recorder: Recorder) -> None:
        decisions = decide(self._snapshot())
        failed = False
        for ok in pool.map(lambda d: self._carried_out(d, recorder), decisions):
            failed = failed or not ok
        if failed:
            self._queue.retry(_PASS)
        else:
            self._queue.forget(_PASS)

    def _snapshot(self) -> Snapshot:
        pods = self._pods.objects()
        self._forget_shown(pods)
        return Snapshot(
            tuple(self._nodes.objects()),
            tuple(self._as_assumed(pod) for pod in pods),
            replica_sets_by_uid(self._sets.objects()),
            self._pins,
        )

    def _forget_shown(self, pods: Iterable[Object]) -> None:
        """Drop the assumptions that the mirror confirms, or whose pods are gone."""
        waiting = {uid_of(pod) for pod in pods if not pod["spec"].get("nodeName")}
        for uid in self._assumed.keys() - waiting:
            del self._assumed[uid]

    def _as_assumed(self, pod: Object) -> Object:
        if (assumed := self._assumed.get(uid_of(pod))) is None:
            return pod
        node, address = assumed
        placed: Object = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        if address:
            annotations = {**(pod["metadata"].get("annotations") or {}), POD_IP_ANNOTATION: address}
            placed["metadata"] = {**pod["metadata"], "annotations": annotations}
        return placed

    def _carried_out(self, decision: Decision, recorder: Recorder) -> bool:
        """Bind, or say why not; False when it is to be tried again."""
        try:
            if decision.node:
                self._bind(decision, recorder)
            else:
                self._explain(decision, recorder)
        except (NotFound, Conflict) as error:  # gone, or changed: its event makes a pass
            log.info("%s: %s", name_of(decision.pod), error.message)
        except LabnetError as error:
            log.warning("%s: %s", name_of(decision.pod), error.message)
            return False
        return True

    def _bind(self, decision: Decision, recorder: Recorder) -> None:
        namespace, name = key_of(decision.pod)
        self._api.bind(namespace, name, decision.node, decision.annotations)
        address = decision.annotations.get(POD_IP_ANNOTATION, "")
        self._assumed[uid_of(decision.pod)] = (decision.node, address)
        text = f"Successfully assigned {namespace}/{name} to {decision.node}"
        recorder.normal(decision.pod, "Scheduled", text)

    def _explain(self, decision: Decision, recorder: Recorder) -> None:
        """Write the reason into the pod's condition, unless it stands there already."""
        pod = decision.pod
        if (condition(pod, "PodScheduled") or {}).get("message") == decision.why:
            return
        unschedulable = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": decision.why,
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        status = pod.get("status") or {}
        others = [c for c in status.get("conditions") or () if c["type"] != "PodScheduled"]
        conditions = [*others, unschedulable]
        changed = {**pod, "status": {**status, "phase": "Pending", "conditions": conditions}}
        self._api.update_status(PODS, changed)
        recorder.warning(pod, "FailedScheduling", decision.why)


def _room_of(pod: Object) -> object:
    """What a pod takes from its node: nothing once it has ended."""
    return pod["spec"].get("nodeName"), (pod.get("status") or {}).get("phase")


def _abilities(node: Object) -> object:
    """What the scheduler looks at on a node."""
    status = node.get("status") or {}
    ready = (condition(node, "Ready") or {}).get("status")
    return node.get("spec"), node["metadata"].get("labels"), ready, status.get("allocatable")
