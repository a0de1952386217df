"""Why a node cannot take a pod: one reason each, in Kubernetes' own words.

The words end up in the FailedScheduling event that ``kubectl describe pod`` shows:
"0/3 nodes are available: 1 node(s) had untolerated taint {…}, 2 node(s) were
unschedulable." People search the web for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from labnet.api.meta import Object
from labnet.api.selectors import LabelSelector, Requirement
from labnet.client.views import is_true, tolerates

NOT_READY = "node.kubernetes.io/not-ready"
_CORDONED = {"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"}
_UNREADY = {"key": NOT_READY, "value": "", "effect": "NoSchedule"}
_OPERATORS = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
    "Gt": "gt",
    "Lt": "lt",
}


def refusal(pod: Object, node: Object, there: Sequence[Object]) -> str:
    """Return why ``node``, with the pods ``there``, cannot take ``pod``; "" if it can."""
    for why in (_cordoned, _tainted, _mismatched):
        if reason := why(pod, node):
            return reason
    return _crowded(pod, node, there)


def _cordoned(pod: Object, node: Object) -> str:
    unschedulable = (node.get("spec") or {}).get("unschedulable")
    if unschedulable and not tolerated(pod, _CORDONED):
        return "node(s) were unschedulable"
    return ""


def _tainted(pod: Object, node: Object) -> str:
    taints: list[Object] = [
        t for t in (node.get("spec") or {}).get("taints") or () if t["effect"] != "PreferNoSchedule"
    ]
    if not is_true(node, "Ready"):
        taints.append(_UNREADY)
    for taint in taints:
        if not tolerated(pod, taint):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    return ""


def tolerated(pod: Object, taint: Object) -> bool:
    """Whether one of the pod's tolerations is for ``taint``."""
    return any(tolerates(t, taint) for t in pod["spec"].get("tolerations") or ())


def _mismatched(pod: Object, node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    wanted = (pod["spec"].get("nodeSelector") or {}).items()
    if all(labels.get(k) == v for k, v in wanted) and _affine(pod, node, labels):
        return ""
    return "node(s) didn't match Pod's node affinity/selector"


def _affine(pod: Object, node: Object, labels: Mapping[str, str]) -> bool:
    """Whether the required node affinity, if there is one, has a term that holds."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        bool(term)
        and _holds(term.get("matchExpressions"), labels)
        and _holds(term.get("matchFields"), fields)
        for term in required.get("nodeSelectorTerms") or ()
    )


def _holds(expressions: Iterable[Object] | None, values: Mapping[str, str]) -> bool:
    requirements = tuple(
        Requirement(e["key"], _OPERATORS[e["operator"]], frozenset(e.get("values") or ()))
        for e in expressions or ()
    )
    return LabelSelector(requirements).matches(values)


def _crowded(pod: Object, node: Object, there: Sequence[Object]) -> str:
    most = ((node.get("status") or {}).get("allocatable") or {}).get("pods")
    if most is not None and len(there) >= int(most):
        return "Too many pods"
    wanted = host_ports(pod)
    if wanted and any(_clash(a, b) for other in there for b in host_ports(other) for a in wanted):
        return "node(s) didn't have free ports for the requested pod ports"
    return ""


def host_ports(pod: Object) -> list[tuple[str, str, int]]:
    """Return (address, protocol, port) of every port the pod takes from its node."""
    return [
        (port.get("hostIP") or "0.0.0.0", port.get("protocol", "TCP"), port["hostPort"])
        for container in pod["spec"].get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


def _clash(a: tuple[str, str, int], b: tuple[str, str, int]) -> bool:
    everywhere = "0.0.0.0"
    return a[1:] == b[1:] and (a[0] == b[0] or everywhere in (a[0], b[0]))


def explanation(reasons: Sequence[str]) -> str:
    """Return the sentence about all nodes, given each one's refusal."""
    if not reasons:
        return "no nodes available to schedule pods"
    counted = Counter(reasons)
    listed = sorted(f"{number} {reason}" for reason, number in counted.items())
    total = len(reasons)
    return (
        f"0/{total} nodes are available: {', '.join(listed)}. preemption: 0/{total} nodes are "
        f"available: {total} Preemption is not helpful for scheduling."
    )
