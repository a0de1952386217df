"""Deployment: one ReplicaSet per pod template it ever had, sized by ``rollout``.

The ReplicaSet of a template is found by comparing templates, and named by a hash of it,
which is also a label on its pods (``pod-template-hash``) so that the sets of one
Deployment never share a pod. Each set remembers its *revision*; going back to an old
template gives its set the newest revision again (``kubectl rollout undo``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.api.selectors import label_selector
from labnet.client.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from labnet.client.views import (
    Key,
    condition,
    controller_of,
    controller_reference,
    has_ended,
    is_controlled_by,
    is_deleting,
    key_of,
    uid_of,
)
from labnet.clock import Clock
from labnet.controllers.deployment_status import is_complete, seconds_left, status_of
from labnet.controllers.loop import KeysOf, Mirrors
from labnet.controllers.rollout import Set, Strategy, first_size, sizes, strategy_of
from labnet.controllers.templates import (
    DESIRED,
    HISTORY,
    REVISION,
    find_new,
    replica_set_of,
    revision_of,
    sized_for,
)
from labnet.controllers.writes import (
    Create,
    Outcome,
    Patch,
    Say,
    Update,
    Write,
    patience_for,
    remove,
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A Deployment, the ReplicaSets of its namespace, its pods' owners, and the time."""

    deployment: Object
    sets: tuple[Object, ...]
    owners_of_pods: frozenset[str]  # uids of ReplicaSets that still have pods
    now: datetime


def reconcile(snapshot: Snapshot) -> Outcome:
    """Return the writes that bring the Deployment's sets and status one step on."""
    deployment = snapshot.deployment
    owned = [s for s in snapshot.sets if is_controlled_by(s, deployment)]
    strategy = strategy_of(deployment)
    new = find_new(deployment, owned)
    old = [s for s in owned if s is not new]
    writes = [] if is_deleting(deployment) else _writes(snapshot, strategy, new, old)
    if any(isinstance(w, Patch) and w.name == key_of(deployment)[1] for w in writes):
        return Outcome(tuple(writes))  # its own version changes: the status waits a pass
    patience = 0.0 if writes else patience_for(strategy.replicas)
    status = status_of(deployment, strategy, new, owned, snapshot.now)
    if status != deployment.get("status"):
        writes.append(Update(DEPLOYMENTS, {**deployment, "status": status}, "status"))
    shown = {**deployment, "status": status}
    left = seconds_left(deployment, condition(shown, "Progressing"), snapshot.now)
    return Outcome(tuple(writes), None if left is None else max(0.1, left), patience)


def _writes(
    snapshot: Snapshot, strategy: Strategy, new: Object | None, old: Sequence[Object]
) -> list[Write]:
    deployment = snapshot.deployment
    adopted = _adopted(deployment, snapshot.sets)
    if adopted:
        return adopted
    paused = bool(deployment["spec"].get("paused"))
    waits = strategy.recreate and any(
        s["spec"].get("replicas", 1) or uid_of(s) in snapshot.owners_of_pods for s in old
    )
    if new is None and not paused and not waits:
        return _created(deployment, strategy, old)
    revised = _revised(deployment, new, old) if new and not paused else []
    ready = None if waits and new and not new["spec"].get("replicas") else new
    changes = sizes(strategy, _set(ready) if ready else None, [_set(s) for s in old], paused=paused)
    return revised or [
        *_resized(deployment, strategy, [*old, *([new] if new else [])], changes),
        *_tidied(deployment, old),
    ]


def _adopted(deployment: Object, sets: Sequence[Object]) -> list[Write]:
    """Take on ReplicaSets that nobody controls and the selector means."""
    selector = label_selector(deployment["spec"].get("selector"))
    writes: list[Write] = []
    for each in sets:
        labels = each["metadata"].get("labels")
        if controller_of(each) is None and not is_deleting(each) and selector.matches(labels):
            others = each["metadata"].get("ownerReferences") or []
            owners = {"ownerReferences": [*others, controller_reference(deployment)]}
            namespace, name = key_of(each)
            writes.append(Patch(REPLICA_SETS, namespace, name, {"metadata": owners}))
    return writes


def _created(deployment: Object, strategy: Strategy, old: Sequence[Object]) -> list[Write]:
    size = first_size(strategy, [_set(s) for s in old])
    revision = max((revision_of(s) for s in old), default=0) + 1
    new = replica_set_of(deployment, strategy, size, revision)
    name = new["metadata"]["name"]
    return [
        Create(REPLICA_SETS, new),
        *_marked(deployment, revision),
        _said(deployment, name, 0, size),
    ]


def _marked(deployment: Object, revision: int) -> list[Write]:
    """Write the current revision onto the Deployment."""
    if revision_of(deployment) == revision:
        return []
    namespace, name = key_of(deployment)
    patch = {"metadata": {"annotations": {REVISION: str(revision)}}}
    return [Patch(DEPLOYMENTS, namespace, name, patch)]


def _revised(deployment: Object, new: Object, old: Sequence[Object]) -> list[Write]:
    """Give the current set the newest revision, and the Deployment the same."""
    newest = max((revision_of(s) for s in old), default=0)
    revision = revision_of(new)
    writes: list[Write] = []
    if revision <= newest:
        annotations = {REVISION: str(newest + 1)}
        if revision:
            past = (new["metadata"].get("annotations") or {}).get(HISTORY, "")
            annotations[HISTORY] = f"{past},{revision}" if past else str(revision)
        revision = newest + 1
        namespace, name = key_of(new)
        patch = {"metadata": {"annotations": annotations}}
        writes.append(Patch(REPLICA_SETS, namespace, name, patch))
    return [*writes, *_marked(deployment, revision)]


def _set(replica_set: Object) -> Set:
    metadata = replica_set["metadata"]
    desired = (metadata.get("annotations") or {}).get(DESIRED)
    return Set(
        metadata["name"],
        replica_set["spec"].get("replicas", 1),
        (replica_set.get("status") or {}).get("availableReplicas", 0),
        metadata["creationTimestamp"],
        int(desired) if desired is not None else None,
    )


def _resized(
    deployment: Object, strategy: Strategy, sets: Sequence[Object], wanted: Mapping[str, int]
) -> list[Write]:
    """Set sizes, and what they were meant for; only where either differs."""
    writes: list[Write] = []
    for each in sets:
        name, size = each["metadata"]["name"], each["spec"].get("replicas", 1)
        if name not in wanted:
            continue
        annotations = {**(each["metadata"].get("annotations") or {}), **sized_for(strategy)}
        if size == wanted[name] and annotations == each["metadata"].get("annotations"):
            continue
        metadata = {**each["metadata"], "annotations": annotations}
        spec = {**each["spec"], "replicas": wanted[name]}
        writes.append(Update(REPLICA_SETS, {**each, "metadata": metadata, "spec": spec}))
        if size != wanted[name]:
            writes.append(_said(deployment, name, size, wanted[name]))
    return writes


def _said(deployment: Object, name: str, before: int, after: int) -> Say:
    direction = "up" if after >= before else "down"
    text = f"Scaled {direction} replica set {name} from {before} to {after}"
    return Say(deployment, "ScalingReplicaSet", text)


def _tidied(deployment: Object, old: Sequence[Object]) -> list[Write]:
    """Delete the oldest empty sets once the rollout is done; ten are kept for going back."""
    if not is_complete(deployment, deployment.get("status") or {}):
        return []
    empty = [
        s
        for s in old
        if not s["spec"].get("replicas", 1)
        and not (s.get("status") or {}).get("replicas")
        and not is_deleting(s)
    ]
    surplus = len(empty) - deployment["spec"].get("revisionHistoryLimit", 10)
    return [remove(REPLICA_SETS, s) for s in sorted(empty, key=revision_of)[: max(0, surplus)]]


class Deployments:
    """The reconciler's eyes."""

    name = "deployment-controller"

    def __init__(self, mirrors: Mirrors, clock: Clock) -> None:
        self._deployments = mirrors.of(DEPLOYMENTS)
        self._sets = mirrors.of(REPLICA_SETS)
        self._pods = mirrors.of(PODS)
        self._clock = clock

    def watched(self) -> Mapping[Resource, KeysOf]:
        """Deployments, ReplicaSets by their controller, and pods that end (Recreate)."""
        return {
            DEPLOYMENTS: lambda obj: (key_of(obj),),
            REPLICA_SETS: self._owners_of,
            PODS: self._recreators_of,
        }

    def _owners_of(self, replica_set: Object) -> tuple[Key, ...]:
        namespace = replica_set["metadata"]["namespace"]
        if owner := controller_of(replica_set):
            return ((namespace, owner["name"]),) if owner["kind"] == "Deployment" else ()
        return tuple(key_of(d) for d in self._deployments.objects(namespace))

    def _recreators_of(self, pod: Object) -> tuple[Key, ...]:
        """A Recreate waits for its pods to be gone; nobody else looks at single pods."""
        if not is_deleting(pod) or (owner := controller_of(pod)) is None:
            return ()
        replica_set = self._sets.get(owner["name"], pod["metadata"]["namespace"])
        return self._owners_of(replica_set) if replica_set else ()

    def look(self, key: Key) -> Outcome:
        """Decide about one Deployment."""
        deployment = self._deployments.get(key[1], key[0])
        if deployment is None:
            return Outcome()
        owners = (controller_of(p) for p in self._pods.objects(key[0]) if not has_ended(p))
        uids = frozenset(owner["uid"] for owner in owners if owner)
        sets = tuple(self._sets.objects(key[0]))
        return reconcile(Snapshot(deployment, sets, uids, self._clock.now()))

    def wrote(self, key: Key, write: Write, answer: Object | None) -> Say | None:
        """Nothing to remember: a set's name is its template's, it cannot be made twice."""
        return None
