"""What a Deployment says about itself: counts, and the conditions people wait for.

``kubectl rollout status`` reads ``observedGeneration``, the counts and the condition
*Progressing*; ``kubectl wait --for=condition=Available`` reads *Available*. Reasons and
texts are those of Kubernetes (``pkg/controller/deployment/progress.go``).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from labnet.api.meta import Object
from labnet.client.views import condition
from labnet.clock import parse_rfc3339, rfc3339
from labnet.controllers.rollout import Strategy

COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
COMPLETE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"


def status_of(
    deployment: Object,
    strategy: Strategy,
    new: Object | None,
    sets: Sequence[Object],
    now: datetime,
) -> Object:
    """Return the whole status; ``sets`` are all ReplicaSets, ``new`` is one of them."""
    counts = _counts(new, sets)
    wanted = sum(s["spec"].get("replicas", 1) for s in sets)
    old = deployment.get("status") or {}
    unavailable = max(0, wanted - counts["availableReplicas"])
    conditions = [
        _available(deployment, counts["availableReplicas"] >= strategy.fewest, now),
        *_progressing(deployment, counts, new, now),
    ]
    status = {k: v for k, v in old.items() if k == "collisionCount"}
    status["observedGeneration"] = deployment["metadata"].get("generation", 0)
    status |= {k: v for k, v in counts.items() if v}
    if unavailable:
        status["unavailableReplicas"] = unavailable
    status["conditions"] = conditions
    return status


def _counts(new: Object | None, sets: Sequence[Object]) -> dict[str, int]:
    def total(field: str) -> int:
        return sum((s.get("status") or {}).get(field, 0) for s in sets)

    updated = (new.get("status") or {}).get("replicas", 0) if new else 0
    return {
        "replicas": total("replicas"),
        "updatedReplicas": updated,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": total("availableReplicas"),
    }


def is_complete(deployment: Object, counts: dict[str, int]) -> bool:
    """Whether every pod asked for is new and available, and no other is left."""
    replicas = deployment["spec"].get("replicas", 1)
    return all(
        counts.get(k, 0) == replicas for k in ("replicas", "updatedReplicas", "availableReplicas")
    )


def _available(deployment: Object, enough: bool, now: datetime) -> Object:
    if enough:
        reason, message = "MinimumReplicasAvailable", "Deployment has minimum availability."
    else:
        reason, message = (
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    return set_condition(deployment, "Available", enough, reason, message, now)


def set_condition(
    obj: Object, kind: str, is_so: bool | None, reason: str, message: str, now: datetime
) -> Object:
    """Return the condition, with the times it had unless something of it changed."""
    status = {True: "True", False: "False", None: "Unknown"}[is_so]
    old = condition(obj, kind)
    moment = rfc3339(now)
    if old and (old["status"], old.get("reason"), old.get("message")) == (status, reason, message):
        return old
    flipped = old is None or old["status"] != status
    since = moment if flipped or old is None else old.get("lastTransitionTime", moment)
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": moment,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }


def _progressing(
    deployment: Object, counts: dict[str, int], new: Object | None, now: datetime
) -> list[Object]:
    """Return the condition Progressing, if a deadline is set and there is anything to say."""
    old = condition(deployment, "Progressing")
    if deadline_of(deployment) is None:
        return []
    if deployment["spec"].get("paused"):
        text = "Deployment is paused"
        return [set_condition(deployment, "Progressing", None, "DeploymentPaused", text, now)]
    name = new["metadata"]["name"] if new else deployment["metadata"]["name"]
    quoted = f'ReplicaSet "{name}"' if new else f'Deployment "{name}"'

    def say(is_so: bool, reason: str, text: str) -> list[Object]:
        message = f"{quoted} {text}"
        return [set_condition(deployment, "Progressing", is_so, reason, message, now)]

    settled = counts["replicas"] == counts["updatedReplicas"]
    if old and settled and old.get("reason") == COMPLETE and quoted in old["message"]:
        return [old]  # complete before: pods that come and go later are no rollout
    if new and is_complete(deployment, counts):
        return say(True, COMPLETE, "has successfully progressed.")
    if _moved(deployment, counts) or old is None or old.get("reason") == COMPLETE:
        return [_touched(say(True, "ReplicaSetUpdated", "is progressing.")[0], now)]
    if _overdue(deployment, old, now):
        return say(False, TIMED_OUT, "has timed out progressing.")
    return [old]


def _touched(entry: Object, now: datetime) -> Object:
    return {**entry, "lastUpdateTime": rfc3339(now)}


def _moved(deployment: Object, counts: dict[str, int]) -> bool:
    """Whether the rollout got on since the status was last written."""
    old = deployment.get("status") or {}
    before = {k: old.get(k, 0) for k in COUNTS}
    old_pods = before["replicas"] - before["updatedReplicas"]
    return bool(
        counts["updatedReplicas"] > before["updatedReplicas"]
        or counts["replicas"] - counts["updatedReplicas"] < old_pods
        or counts["readyReplicas"] > before["readyReplicas"]
        or counts["availableReplicas"] > before["availableReplicas"]
    )


def deadline_of(deployment: Object) -> int | None:
    """Return ``progressDeadlineSeconds``; None for "never" (Kubernetes writes 2³¹−1)."""
    seconds: int = deployment["spec"].get("progressDeadlineSeconds", 600)
    return None if seconds >= 2**31 - 1 else seconds


def _overdue(deployment: Object, progressing: Object, now: datetime) -> bool:
    return (left := seconds_left(deployment, progressing, now)) is not None and left <= 0


def seconds_left(deployment: Object, progressing: Object | None, now: datetime) -> float | None:
    """Return the seconds until the rollout counts as stuck; None where that cannot be."""
    deadline = deadline_of(deployment)
    if deadline is None or progressing is None or progressing["status"] != "True":
        return None
    if progressing.get("reason") in (COMPLETE, None):
        return None
    since = parse_rfc3339(progressing["lastUpdateTime"])
    return deadline - (now - since).total_seconds()
