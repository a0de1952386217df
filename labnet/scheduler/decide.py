"""Where each pending pod goes: a pure function of what there is.

A pod goes to a node that can take it and has the fewest pods of the same controller,
then the fewest pods at all, then the first name. Pods decided earlier in the same pass
count, so a hundred pods spread in one pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from labnet.api.meta import Object
from labnet.client.views import controller_of, has_ended, is_deleting, key_of
from labnet.naming import POD_IP_ANNOTATION
from labnet.scheduler.filters import explanation, refusal
from labnet.scheduler.pins import Pins, is_known, owner_of, taken

NAME = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Nodes, all pods, ReplicaSets by uid, and the scenario's pins."""

    nodes: tuple[Object, ...]
    pods: tuple[Object, ...]
    replica_sets: Mapping[str, Object]
    pins: Pins


@dataclass(frozen=True, slots=True)
class Decision:
    """A pod's place, or (``node`` "") why it has none."""

    pod: Object
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    why: str = ""


@dataclass(slots=True)
class _Cluster:
    """What the pass knows so far: pods per node, per node and controller, addresses."""

    nodes: Sequence[Object]
    there: dict[str, list[Object]]
    siblings: Counter[tuple[str, str]]
    addresses: dict[str, Object]  # each with the pod that has it

    def place(self, pod: Object, node: str, address: str = "") -> None:
        self.there.setdefault(node, []).append(pod)
        self.siblings[node, _group(pod)] += 1
        if address:
            self.addresses[address] = pod


def decide(snapshot: Snapshot) -> list[Decision]:
    """Return one decision for each pod that waits for a node, oldest first."""
    cluster = _cluster(snapshot)
    decisions = []
    for pod in sorted(filter(is_pending, snapshot.pods), key=_age):
        if snapshot.pins.addresses and not is_known(pod, snapshot.replica_sets):
            continue  # decided when its ReplicaSet shows up: it may be pinned
        decision = _pinned(snapshot, cluster, pod) or _spread(cluster, pod)
        if decision.node:
            cluster.place(pod, decision.node, decision.annotations.get(POD_IP_ANNOTATION, ""))
        decisions.append(decision)
    return decisions


def is_pending(pod: Object) -> bool:
    """Whether the pod is this scheduler's to place."""
    spec = pod["spec"]
    mine = spec.get("schedulerName", NAME) == NAME
    gated = bool(spec.get("schedulingGates"))
    return mine and not (spec.get("nodeName") or gated or is_deleting(pod) or has_ended(pod))


def _age(pod: Object) -> tuple[str, int, str]:
    metadata = pod["metadata"]
    return metadata["creationTimestamp"], int(metadata.get("resourceVersion", 0)), metadata["name"]


def _group(pod: Object) -> str:
    owner = controller_of(pod)
    return owner["uid"] if owner else ""


def _cluster(snapshot: Snapshot) -> _Cluster:
    nodes = sorted(snapshot.nodes, key=lambda n: str(n["metadata"]["name"]))
    cluster = _Cluster(nodes, {}, Counter(), taken(snapshot.pods))
    for pod in snapshot.pods:
        node = pod["spec"].get("nodeName")
        if node and not has_ended(pod):
            cluster.place(pod, node)
    return cluster


def _pinned(snapshot: Snapshot, cluster: _Cluster, pod: Object) -> Decision | None:
    """Return the place of the first free pinned address whose node can take the pod."""
    nodes = {n["metadata"]["name"]: n for n in cluster.nodes}
    wanted = list(snapshot.pins.wanted(owner_of(pod, snapshot.replica_sets)))
    for address, node in wanted:
        if str(address) in cluster.addresses or node not in nodes:
            continue
        if not refusal(pod, nodes[node], cluster.there.get(node, ())):
            return Decision(pod, node, {POD_IP_ANNOTATION: str(address)})
    return _waiting(cluster, pod, [str(address) for address, _ in wanted])


def _waiting(cluster: _Cluster, pod: Object, addresses: Iterable[str]) -> Decision | None:
    """Return the wait for a pinned address that a pod being deleted still has, if one does."""
    for address in addresses:
        holder = cluster.addresses.get(address)
        if holder is not None and is_deleting(holder):
            cluster.addresses[address] = pod  # one successor waits for it, not all
            return Decision(
                pod, "", why=f"pinned address {address} is still held by {name_of(holder)}"
            )
    return None


def _spread(cluster: _Cluster, pod: Object) -> Decision:
    """Return the emptiest node that can take the pod."""
    fitting: list[str] = []
    reasons: list[str] = []
    for node in cluster.nodes:
        name = node["metadata"]["name"]
        if reason := refusal(pod, node, cluster.there.get(name, ())):
            reasons.append(reason)
        else:
            fitting.append(name)
    if not fitting:
        return Decision(pod, "", why=explanation(reasons))
    return Decision(pod, min(fitting, key=lambda name: _load(cluster, pod, name)))


def _load(cluster: _Cluster, pod: Object, node: str) -> tuple[int, int, str]:
    group = _group(pod)
    alike = cluster.siblings[node, group] if group else 0
    return alike, len(cluster.there.get(node, ())), node


def replica_sets_by_uid(found: Iterable[Object]) -> dict[str, Object]:
    """Return ReplicaSets by uid."""
    return {s["metadata"]["uid"]: s for s in found}


def name_of(pod: Object) -> str:
    """Return ``namespace/name``."""
    return "/".join(key_of(pod))
