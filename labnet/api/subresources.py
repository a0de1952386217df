"""Subresources that are another kind than their parent: scale, binding, eviction, reviews."""

from __future__ import annotations

from collections.abc import Sequence

from labnet.api.meta import Object


def scale_of(obj: Object) -> Object:
    """Return the autoscaling/v1 Scale of a Deployment, ReplicaSet, StatefulSet or RC."""
    raise NotImplementedError


def with_scale(obj: Object, scale: Object) -> Object:
    """Return ``obj`` with the replicas ``scale`` asks for."""
    raise NotImplementedError


def bound(pod: Object, binding: Object, now: str) -> Object:
    """Return ``pod`` on the node ``binding.target.name``, with the binding's annotations.

    Sets the condition PodScheduled. Raises ApiError 409 when it is on a node already.
    """
    raise NotImplementedError


def self_subject_review(
    kind: str, body: Object, user: str, uid: str, groups: Sequence[str]
) -> Object:
    """Return a SelfSubjectReview, SelfSubjectAccessReview, SelfSubjectRulesReview (also
    SubjectAccessReview) with its status filled in: authenticated, and allowed anything.
    """
    raise NotImplementedError
