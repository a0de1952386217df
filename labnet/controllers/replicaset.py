"""ReplicaSet: as many pods as were asked for.

Pods that carry the selector's labels and have no controller are adopted, owned pods that
lost the labels are released. Then the number is made right: new pods are copies of the
template with generated names; surplus ones are chosen so that as little work as possible
is lost (unplaced before placed, not ready before ready, from the node with the most,
youngest first).

A mirror that lags behind one's own writes would lead to creating twice. So a pass waits
until the mirror has reached the version of the last pod created, and pods it has had
deleted count as gone before the mirror says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.api.selectors import label_selector
from labnet.client.kinds import PODS, REPLICA_SETS
from labnet.client.views import (
    Key,
    controller_of,
    controller_reference,
    has_ended,
    is_active,
    is_controlled_by,
    is_deleting,
    is_ready,
    key_of,
    phase,
    seconds_until_available,
    uid_of,
)
from labnet.clock import Clock, parse_rfc3339
from labnet.controllers.loop import KeysOf, Mirrors
from labnet.controllers.writes import (
    Create,
    Outcome,
    Patch,
    Remove,
    Say,
    Update,
    Write,
    patience_for,
    remove,
)

BURST = 500  # pods created or deleted in one pass


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A ReplicaSet, the pods of its namespace, and the time."""

    replica_set: Object
    pods: tuple[Object, ...]
    gone: frozenset[str]  # uids whose deletion was asked for, whatever the mirror says
    now: datetime


def reconcile(snapshot: Snapshot) -> Outcome:
    """Return the writes that bring pods and status nearer to what the spec asks for."""
    replica_set = snapshot.replica_set
    ownership = _ownership(replica_set, snapshot.pods)
    owned = [
        pod
        for pod in snapshot.pods
        if is_controlled_by(pod, replica_set)
        and _selects(replica_set, pod)
        and uid_of(pod) not in snapshot.gone
    ]
    active = [pod for pod in owned if is_active(pod)]
    changes = () if is_deleting(replica_set) else _changes(replica_set, active)
    status, again = _status(replica_set, active, snapshot.now)
    patience = 0.0 if ownership or changes else patience_for(len(active))
    return Outcome((*ownership, *changes, *status), again, patience)


def _selects(replica_set: Object, pod: Object) -> bool:
    selector = label_selector(replica_set["spec"].get("selector"))
    return selector.matches(pod["metadata"].get("labels"))


def _ownership(replica_set: Object, pods: Sequence[Object]) -> tuple[Write, ...]:
    """Adopt orphans with the right labels, release owned pods without them."""
    if is_deleting(replica_set):
        return ()
    writes: list[Write] = []
    for pod in pods:
        if is_deleting(pod):
            continue
        selected = _selects(replica_set, pod)
        if selected and controller_of(pod) is None and not has_ended(pod):
            others = pod["metadata"].get("ownerReferences") or []
            writes.append(_owners(pod, [*others, controller_reference(replica_set)]))
        elif not selected and is_controlled_by(pod, replica_set):
            mine = uid_of(replica_set)
            others = [o for o in pod["metadata"]["ownerReferences"] if o["uid"] != mine]
            writes.append(_owners(pod, others))
    return tuple(writes)


def _owners(pod: Object, owners: list[Object]) -> Patch:
    metadata = {"uid": uid_of(pod), "ownerReferences": owners or None}
    namespace, name = key_of(pod)
    return Patch(PODS, namespace, name, {"metadata": metadata})


def _changes(replica_set: Object, active: list[Object]) -> tuple[Write, ...]:
    missing = replica_set["spec"].get("replicas", 1) - len(active)
    if missing > 0:
        return tuple(Create(PODS, pod_of(replica_set)) for _ in range(min(missing, BURST)))
    crowd = Counter(pod["spec"].get("nodeName", "") for pod in active)
    ranked = sorted(active, key=lambda pod: dismissal_rank(pod, crowd))
    return tuple(remove(PODS, pod) for pod in ranked[: min(-missing, BURST)])


def pod_of(replica_set: Object) -> Object:
    """Return a new pod as the template says, owned by ``replica_set``."""
    template = replica_set["spec"]["template"]
    metadata = template.get("metadata") or {}
    kept: Object = {k: dict(metadata[k]) for k in ("labels", "annotations") if metadata.get(k)}
    if metadata.get("finalizers"):
        kept["finalizers"] = list(metadata["finalizers"])
    namespace, name = key_of(replica_set)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{name}-",
            "namespace": namespace,
            **kept,
            "ownerReferences": [controller_reference(replica_set)],
        },
        "spec": template["spec"],
    }


_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST = "controller.kubernetes.io/pod-deletion-cost"


def dismissal_rank(pod: Object, crowd: Mapping[str, int]) -> tuple[Any, ...]:
    """Return a sort key: the smaller, the sooner the pod goes when there are too many.

    ``crowd`` has the number of the set's pods on each node.
    """
    node = pod["spec"].get("nodeName", "")
    metadata = pod["metadata"]
    restarts = sum(
        c.get("restartCount", 0) for c in pod.get("status", {}).get("containerStatuses") or ()
    )
    return (
        bool(node),
        _PHASE_RANK.get(phase(pod), 2),
        is_ready(pod),
        int((metadata.get("annotations") or {}).get(_COST, "0")),
        -crowd[node],
        -restarts,
        -parse_rfc3339(metadata["creationTimestamp"]).timestamp(),
        metadata["name"],
    )


def _status(
    replica_set: Object, active: Sequence[Object], now: datetime
) -> tuple[tuple[Write, ...], float | None]:
    """Return the status write, if any, and when a pod becomes available by waiting."""
    spec, old = replica_set["spec"], replica_set.get("status") or {}
    waits = [seconds_until_available(p, spec.get("minReadySeconds", 0), now) for p in active]
    template = (spec["template"].get("metadata") or {}).get("labels") or {}
    labelled = label_selector({"matchLabels": template})
    counts = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(labelled.matches(p["metadata"].get("labels")) for p in active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(wait == 0 for wait in waits),
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }
    kept = {k: v for k, v in old.items() if k not in counts}
    status = kept | {k: v for k, v in counts.items() if v or k == "replicas"}
    again = min((w for w in waits if w), default=None)
    if status == old:
        return (), again
    return (Update(REPLICA_SETS, {**replica_set, "status": status}, "status"),), again


class ReplicaSets:
    """The reconciler's eyes and memory."""

    name = "replicaset-controller"

    def __init__(self, mirrors: Mirrors, clock: Clock) -> None:
        self._sets = mirrors.of(REPLICA_SETS)
        self._pods = mirrors.of(PODS)
        self._clock = clock
        self._created: dict[Key, str] = {}  # the version of the last pod made
        self._removed: dict[Key, set[str]] = {}

    def watched(self) -> Mapping[Resource, KeysOf]:
        """ReplicaSets, and pods by their controller (orphans: whoever selects them)."""
        return {REPLICA_SETS: lambda obj: (key_of(obj),), PODS: self._owners_of}

    def _owners_of(self, pod: Object) -> tuple[Key, ...]:
        namespace = pod["metadata"]["namespace"]
        if owner := controller_of(pod):
            return ((namespace, owner["name"]),) if owner["kind"] == "ReplicaSet" else ()
        return tuple(key_of(s) for s in self._sets.objects(namespace) if _selects(s, pod))

    def look(self, key: Key) -> Outcome:
        """Decide about one ReplicaSet, once the mirror shows all pods made for it."""
        replica_set = self._sets.get(key[1], key[0])
        if replica_set is None:
            self._created.pop(key, None)
            self._removed.pop(key, None)
            return Outcome()
        if not self._pods.reached(self._created.get(key, "0")):
            return Outcome()  # the event that brings it up to date asks again
        pods = tuple(self._pods.objects(key[0]))
        gone = self._still_going(key, pods)
        return reconcile(Snapshot(replica_set, pods, gone, self._clock.now()))

    def _still_going(self, key: Key, pods: Sequence[Object]) -> frozenset[str]:
        """Forget the deletions that the mirror shows by now."""
        going = self._removed.get(key)
        if going:
            going &= {uid_of(pod) for pod in pods if not is_deleting(pod)}
        return frozenset(going or ())

    def wrote(self, key: Key, write: Write, answer: Object | None) -> Say | None:
        """Remember what the mirror must show before the next pass; say it."""
        replica_set = self._sets.get(key[1], key[0])
        match write:
            case Create() if answer is not None:
                version = answer["metadata"]["resourceVersion"]
                last = self._created.get(key, "0")
                self._created[key] = max(version, last, key=int)
                reason, text = "SuccessfulCreate", f"Created pod: {answer['metadata']['name']}"
            case Remove(uid=uid, name=name):
                self._removed.setdefault(key, set()).add(uid)
                reason, text = "SuccessfulDelete", f"Deleted pod: {name}"
            case _:
                return None
        return Say(replica_set, reason, text) if replica_set else None
