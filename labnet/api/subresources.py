"""Subresources that are another kind than their parent: scale, binding, reviews.

A subresource is a path below an object. ``status`` shows the object itself; these show
something else: ``kubectl scale`` reads and writes a Scale made from the few fields it is
about, the scheduler POSTs a Binding that becomes ``spec.nodeName``, a review is a question
that is answered and never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from labnet.api import field
from labnet.api.meta import Object, metadata_of
from labnet.api.selectors import selector_terms
from labnet.api.status import bad_request, conflict, invalid

_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(obj: Object) -> Object:
    """Return the autoscaling/v1 Scale of a Deployment, ReplicaSet, StatefulSet or RC."""
    metadata = metadata_of(obj)
    status: Object = {"replicas": (obj.get("status") or {}).get("replicas", 0)}
    selector = _selector_text((obj.get("spec") or {}).get("selector") or {})
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _IDENTITY if name in metadata},
        "spec": {"replicas": (obj.get("spec") or {}).get("replicas", 0)},
        "status": status,
    }


def _selector_text(selector: Object) -> str:
    """Return a selector as a URL has it."""
    return ",".join(text for _, text in sorted(selector_terms(selector)))


def with_scale(obj: Object, scale: Object) -> Object:
    """Return ``obj`` with the replicas ``scale`` asks for. Raises ApiError 422."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if problems := field.non_negative("spec.replicas", replicas):
        raise invalid("autoscaling", "Scale", metadata_of(obj).get("name", ""), problems)
    return {**obj, "spec": {**(obj.get("spec") or {}), "replicas": replicas}}


def bound(pod: Object, binding: Object, now: str) -> Object:
    """Return ``pod`` on the node ``binding.target.name``, with the binding's annotations.

    Sets the condition PodScheduled. Raises ApiError 400 for a binding without a node,
    409 when the pod is on a node already, or being deleted.
    """
    name, node = metadata_of(pod).get("name", ""), (binding.get("target") or {}).get("name")
    if not node:
        raise bad_request("target.name: Required value")
    current = (pod.get("spec") or {}).get("nodeName")
    if metadata_of(pod).get("deletionTimestamp"):
        raise conflict(
            "", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host"
        )
    if current:
        raise conflict(
            "", "pods/binding", name, f'pod {name} is already assigned to node "{current}"'
        )
    new = deepcopy(pod)
    new["spec"]["nodeName"] = node
    annotations = metadata_of(binding).get("annotations") or {}
    if annotations:
        new["metadata"]["annotations"] = {
            **(metadata_of(pod).get("annotations") or {}),
            **annotations,
        }
    conditions = new.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [c for c in conditions if c.get("type") != "PodScheduled"]
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now})
    return new


_ALLOWED = {"allowed": True, "reason": "labnet lets every authenticated user do everything"}


def self_subject_review(
    kind: str, body: Object, user: str, uid: str, groups: Sequence[str]
) -> Object:
    """Return a SelfSubjectReview, SelfSubjectAccessReview, SelfSubjectRulesReview (also
    SubjectAccessReview) with its status filled in: authenticated, and allowed anything.
    """
    if kind == "SelfSubjectReview":
        info = {"username": user, "uid": uid, "groups": list(groups)}
        status: Object = {"userInfo": {k: v for k, v in info.items() if v}}
    elif kind == "SelfSubjectRulesReview":
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        paths = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        status = {"resourceRules": [everything], "nonResourceRules": [paths], "incomplete": False}
    else:
        status = dict(_ALLOWED)
    return {**body, "status": status}
