"""Node lifecycle: a node that says nothing any more is taken out of service.

Each kubelet renews a Lease every ten seconds. When one was not renewed for the grace
period, its node's Ready condition becomes Unknown, its pods' Ready condition False (so
they leave the endpoints), and it gets the taint ``node.kubernetes.io/unreachable``; a
node whose kubelet says it is not ready gets ``not-ready``. Pods leave a tainted node
when their toleration ends, five minutes by default. All of it is undone when the
kubelet speaks again.

Time is measured from when a renewal was *seen* here: clocks of nodes need not agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.client.kinds import LEASES, NODE_LEASES, NODES, PODS
from labnet.client.views import Key, condition, has_ended, is_deleting, is_ready, is_true, tolerates
from labnet.clock import Clock, parse_rfc3339, rfc3339
from labnet.controllers.loop import KeysOf, Mirrors
from labnet.controllers.writes import Outcome, Say, Update, Write, remove

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
SETTLE = 5.0  # seconds a node may be not ready before it is tainted: every start is
TOLERATION = 300.0  # seconds a pod stays on a tainted node, unless it says otherwise
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A node, the pods on it, whether its kubelet has fallen silent, and the time."""

    node: Object
    pods: tuple[Object, ...]
    silent: bool
    now: datetime


def reconcile(snapshot: Snapshot) -> Outcome:
    """Return the writes that make the node say how it is: one of the node itself a pass."""
    node, now = snapshot.node, snapshot.now
    about_pods = _unready(snapshot.pods, now) if snapshot.silent else []
    unknown = _unknown(node, now) if snapshot.silent else None
    if unknown is not None:
        said = Say(
            node, "NodeNotReady", f"Node {node['metadata']['name']} status is now: NodeNotReady"
        )
        return Outcome((*about_pods, Update(NODES, unknown, "status"), said))
    spec = node.get("spec") or {}
    settling = _settling(node, now)
    if settling > 0:
        return Outcome(tuple(about_pods), settling)
    taints = _taints(node, now)
    if taints != (spec.get("taints") or []):
        kept = {k: v for k, v in spec.items() if k != "taints"}
        tainted = kept | ({"taints": taints} if taints else {})
        return Outcome((*about_pods, Update(NODES, {**node, "spec": tainted})))
    evicted, again = _evicted(taints, snapshot.pods, now)
    return Outcome((*about_pods, *evicted), again)


def _unknown(node: Object, now: datetime) -> Object | None:
    """Return the node with every reported condition Unknown; None when it says so already."""
    reported = (node.get("status") or {}).get("conditions") or []
    ready = condition(node, "Ready") or {"type": "Ready", "lastHeartbeatTime": rfc3339(now)}
    if ready.get("status") == "Unknown":
        return None
    others = [c for c in reported if c["type"] != "Ready"]
    conditions = [_lost(c, now) if c["type"] in _REPORTED else c for c in (*others, ready)]
    return {**node, "status": {**(node.get("status") or {}), "conditions": conditions}}


def _lost(entry: Object, now: datetime) -> Object:
    return {
        **entry,
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": rfc3339(now),
    }


def _unready(pods: Sequence[Object], now: datetime) -> list[Write]:
    """Mark the pods of a lost node not ready; their kubelet will say when they are again."""
    writes: list[Write] = []
    for pod in filter(is_ready, pods):
        conditions = [
            {**c, "status": "False", "lastTransitionTime": rfc3339(now)}
            if c["type"] == "Ready"
            else c
            for c in pod["status"]["conditions"]
        ]
        status = {**pod["status"], "conditions": conditions}
        writes.append(Update(PODS, {**pod, "status": status}, "status"))
    return writes


def _settling(node: Object, now: datetime) -> float:
    """Return the seconds that a node which only just is not ready is left alone.

    The scheduler looks at the Ready condition too: nothing is placed on it meanwhile.
    """
    ready = condition(node, "Ready")
    if ready and ready["status"] != "False":
        return 0.0
    began = (ready or {}).get("lastTransitionTime") or node["metadata"]["creationTimestamp"]
    return SETTLE - (now - parse_rfc3339(began)).total_seconds()


def _taints(node: Object, now: datetime) -> list[Object]:
    """Return the node's taints with ours as its Ready condition wants them."""
    ready = condition(node, "Ready")
    status = ready["status"] if ready else "False"
    wanted = {"True": "", "Unknown": UNREACHABLE}.get(status, NOT_READY)
    present: list[Object] = (node.get("spec") or {}).get("taints") or []
    kept = [t for t in present if t["key"] not in (NOT_READY, UNREACHABLE) or t["key"] == wanted]
    there = {(t["key"], t["effect"]) for t in kept}
    effects = ("NoSchedule", "NoExecute") if wanted else ()
    added = [
        {"key": wanted, "effect": effect, "timeAdded": rfc3339(now)}
        for effect in effects
        if (wanted, effect) not in there
    ]
    return [*kept, *added]


def _evicted(
    taints: Sequence[Object], pods: Sequence[Object], now: datetime
) -> tuple[list[Write], float | None]:
    """Return the deletions of pods whose time on a tainted node is over, and the next's time."""
    deletions: list[Write] = []
    waits: list[float] = []
    for pod in pods:
        if is_deleting(pod) or has_ended(pod):
            continue
        left = min((_stay(pod, t, now) for t in taints if t["effect"] == "NoExecute"), default=None)
        if left is None or left == float("inf"):
            continue
        if left <= 0:
            deletions.append(remove(PODS, pod))
        else:
            waits.append(left)
    return deletions, min(waits, default=None)


def _stay(pod: Object, taint: Object, now: datetime) -> float:
    """Return the seconds ``pod`` may stay under a NoExecute taint; inf for always."""
    ours = taint["key"] in (NOT_READY, UNREACHABLE)
    seconds = TOLERATION if ours else 0.0
    for toleration in pod["spec"].get("tolerations") or ():
        if tolerates(toleration, taint):
            seconds = toleration.get("tolerationSeconds", float("inf"))
            break
    if "timeAdded" not in taint:
        return float(seconds)
    return seconds - (now - parse_rfc3339(taint["timeAdded"])).total_seconds()


class NodeLifecycle:
    """The reconciler's eyes, and when it last saw each lease renewed."""

    name = "node-controller"

    def __init__(self, mirrors: Mirrors, clock: Clock, grace: float) -> None:
        self._nodes = mirrors.of(NODES)
        self._leases = mirrors.of(LEASES)
        self._pods = mirrors.of(PODS)
        self._clock = clock
        self._grace = grace
        self._seen: dict[str, tuple[str, float]] = {}  # node -> (renewal, when seen)

    def watched(self) -> Mapping[Resource, KeysOf]:
        """Nodes, their leases, and pods that appear on a node already lost."""
        return {NODES: lambda obj: (_key(obj),), LEASES: _node_of, PODS: self._lost_node_of}

    def _lost_node_of(self, pod: Object) -> tuple[Key, ...]:
        name = pod["spec"].get("nodeName", "")
        node = self._nodes.get(name) if name else None
        return () if node is None or is_true(node, "Ready") else (("", name),)

    def look(self, key: Key) -> Outcome:
        """Decide about one node, and look again when its lease would run out."""
        node = self._nodes.get(key[1])
        if node is None:
            self._seen.pop(key[1], None)
            return Outcome()
        left = self._grace - self._silence(node)
        concerned = left <= 0 or not is_true(node, "Ready") or node.get("spec", {}).get("taints")
        pods = self._pods_on(key[1]) if concerned else ()
        outcome = reconcile(Snapshot(node, pods, left <= 0, self._clock.now()))
        waits = [w for w in (outcome.again, left if left > 0 else None) if w is not None]
        return Outcome(outcome.writes, min(waits, default=None))

    def _silence(self, node: Object) -> float:
        """Return the seconds since a renewal of the node's lease was seen here."""
        name = node["metadata"]["name"]
        lease = self._leases.get(name, NODE_LEASES)
        renewal = str((lease or {}).get("spec", {}).get("renewTime", ""))
        if not renewal:
            renewal = str((condition(node, "Ready") or {}).get("lastHeartbeatTime", ""))
        now = self._clock.monotonic()
        if self._seen.get(name, (None, 0.0))[0] != renewal:
            self._seen[name] = (renewal, now)
        return now - self._seen[name][1]

    def _pods_on(self, node: str) -> tuple[Object, ...]:
        return tuple(p for p in self._pods.objects() if p["spec"].get("nodeName") == node)

    def wrote(self, key: Key, write: Write, answer: Object | None) -> Say | None:
        """Nothing to remember."""
        return None


def _key(node: Object) -> Key:
    return "", node["metadata"]["name"]


def _node_of(lease: Object) -> tuple[Key, ...]:
    metadata = lease["metadata"]
    return (("", metadata["name"]),) if metadata["namespace"] == NODE_LEASES else ()
