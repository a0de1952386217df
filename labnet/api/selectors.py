"""Selectors: which objects are meant.

A *label selector* is a conjunction of requirements, written ``app=web,tier in (a,b),!x``
in a URL and as ``matchLabels``/``matchExpressions`` in an object. A *field selector*
compares a few named fields with ``=`` and ``!=``: ``spec.nodeName=node1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labnet.api.meta import Object
from labnet.api.resources import Resource


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: str  # "=", "!=", "in", "notin", "exists", "!", "gt", "lt"
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; without any, everything matches."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is meant."""
        raise NotImplementedError


NOTHING = LabelSelector((Requirement("", "in"),))  # matches no object


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Conditions (field, equal?, value); all must hold."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    def matches(self, resource: Resource, obj: Object) -> bool:
        """Whether ``obj`` is meant."""
        raise NotImplementedError

    def exact(self, field: str) -> str | None:
        """Return the value ``field`` must have, if the selector pins it (a fast path)."""
        raise NotImplementedError


def parse_labels(text: str) -> LabelSelector:
    """Return the selector of a query parameter; ApiError 400 for one that cannot be read."""
    raise NotImplementedError


def label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Return the selector of a metav1.LabelSelector: None is nothing, {} everything."""
    raise NotImplementedError


def parse_fields(resource: Resource, text: str) -> FieldSelector:
    """Return the selector of a query parameter; ApiError 400 for a field that has none."""
    raise NotImplementedError
