"""Which ReplicaSet has a Deployment's template, and how a new one is made of it.

A ReplicaSet belongs to one pod template. It is found by comparing templates (without
the label that tells the sets' pods apart), and named by a hash of its template, so that
making it twice is making it once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

from labnet.api.meta import NAME_LETTERS, Object
from labnet.client.views import controller_reference, key_of
from labnet.controllers.rollout import Strategy

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = (
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MOST,
    "deprecated.deployment.rollback.to",
)


def template_hash(template: Object) -> str:
    """Return ten letters that stand for a pod template, the same ones every time."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    number = int.from_bytes(sha256(text.encode()).digest()[:8], "big")
    letters = []
    for _ in range(10):
        number, digit = divmod(number, len(NAME_LETTERS))
        letters.append(NAME_LETTERS[digit])
    return "".join(letters)


def _bare(template: Object) -> Object:
    """A template without its hash label."""
    metadata = dict(template.get("metadata") or {})
    labels = {k: v for k, v in (metadata.pop("labels", None) or {}).items() if k != HASH}
    metadata.pop("creationTimestamp", None)
    return {**template, "metadata": {**metadata, "labels": labels}}


def find_new(deployment: Object, sets: Sequence[Object]) -> Object | None:
    """Return the ReplicaSet that has the Deployment's template: the oldest, if several."""
    wanted = _bare(deployment["spec"]["template"])
    same = [s for s in sets if _bare(s["spec"]["template"]) == wanted]
    return min(same, key=lambda s: s["metadata"]["creationTimestamp"], default=None)


def revision_of(obj: Object) -> int:
    """Return the revision a ReplicaSet or Deployment is marked with, 0 for none."""
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def replica_set_of(deployment: Object, strategy: Strategy, size: int, revision: int) -> Object:
    """Return a new ReplicaSet for the Deployment's template."""
    namespace, name = key_of(deployment)
    spec = deployment["spec"]
    digest = {HASH: template_hash(spec["template"])}
    metadata = spec["template"].get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **digest}
    matched = {**(spec["selector"].get("matchLabels") or {}), **digest}
    made = {
        "replicas": size,
        "selector": {**spec["selector"], "matchLabels": matched},
        "template": {**spec["template"], "metadata": {**metadata, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        made["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name}-{digest[HASH]}",
            "namespace": namespace,
            "labels": labels,
            "annotations": _annotations(deployment, strategy) | {REVISION: str(revision)},
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": made,
    }


def _annotations(deployment: Object, strategy: Strategy) -> dict[str, str]:
    own = deployment["metadata"].get("annotations") or {}
    kept = {k: v for k, v in own.items() if k not in _NOT_COPIED}
    return kept | sized_for(strategy)


def sized_for(strategy: Strategy) -> dict[str, str]:
    """Return the annotations that remember what a set was sized for."""
    return {DESIRED: str(strategy.replicas), MOST: str(strategy.replicas + strategy.max_surge)}
