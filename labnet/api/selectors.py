"""Selectors: which objects are meant.

A *label selector* is a conjunction of requirements, written ``app=web,tier in (a,b),!x``
in a URL and as ``matchLabels``/``matchExpressions`` in an object. A *field selector*
compares a few named fields with ``=`` and ``!=``: ``spec.nodeName=node1``.

Mind the negations: ``x!=a`` and ``x notin (a)`` are true of an object without label x.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.api.status import bad_request


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: str  # "in", "notin", "exists", "!", "gt", "lt"; = and != are in and notin
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels meets the condition."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case operator:
                return _compares(value, operator, next(iter(self.values)))


def _compares(value: str | None, operator: str, limit: str) -> bool:
    try:
        left, right = int(value or ""), int(limit)
    except ValueError:
        return False
    return left > right if operator == "gt" else left < right


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; without any, everything matches."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is meant."""
        return all(r.holds(labels or {}) for r in self.requirements)


EVERYTHING = LabelSelector()
NOTHING = LabelSelector((Requirement("", "in"),))  # matches no object

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")


def parse_labels(text: str) -> LabelSelector:
    """Return the selector of a query parameter; ApiError 400 for one that cannot be read."""
    stripped = text.strip()
    tokens = _TOKEN.findall(stripped)
    found: list[Requirement] = []
    position = 0
    while position < len(tokens):
        if found:
            if tokens[position] != ",":
                raise _unreadable(
                    text, f"found '{tokens[position]}', expected: ',' or 'end of string'"
                )
            position += 1
        requirement, position = _requirement(text, tokens, position)
        found.append(requirement)
    return LabelSelector(tuple(found))


def _requirement(text: str, tokens: list[str], at: int) -> tuple[Requirement, int]:
    """Read one requirement at token ``at``; return it and where the next token is."""
    rest = [*tokens[at:], "", "", ""]
    if rest[0] == "!":
        return Requirement(_key(text, rest[1]), "!"), at + 2
    key = _key(text, rest[0])
    operator = rest[1]
    if operator in ("", ","):
        return Requirement(key, "exists"), at + 1
    if operator in ("=", "==", "!="):
        value = "" if rest[2] == "," else rest[2]
        used = 3 if value else 2
        kind = "notin" if operator == "!=" else "in"
        return Requirement(key, kind, frozenset({_value(text, value)})), at + used
    if operator in ("in", "notin"):
        values, used = _values(text, rest[2:])
        return Requirement(key, operator, values), at + 2 + used
    if operator in ("<", ">"):
        if not re.fullmatch(r"-?\d+", rest[2]):
            raise _unreadable(text, "for 'Gt', 'Lt' operators, the value must be an integer")
        return Requirement(key, "gt" if operator == ">" else "lt", frozenset({rest[2]})), at + 3
    raise _unreadable(text, f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _values(text: str, tokens: list[str]) -> tuple[frozenset[str], int]:
    """Read ``( a , b )``; an empty place between commas is the empty value."""
    if tokens[0] != "(":
        raise _unreadable(text, f"found '{tokens[0]}', expected: '('")
    values: list[str] = []
    current = ""
    for used, token in enumerate(tokens[1:], 2):
        if token in (",", ")"):
            values.append(_value(text, current))
            current = ""
            if token == ")":
                return frozenset(values), used
        elif current or not token:
            break
        else:
            current = token
    raise _unreadable(text, "expected: ',' or ')'")


def _key(text: str, key: str) -> str:
    if not _KEY.fullmatch(key):
        raise _unreadable(text, f'"{key}" is no label key')
    return key


def _value(text: str, value: str) -> str:
    if not _VALUE.fullmatch(value):
        raise _unreadable(text, f'"{value}" is no label value')
    return value


def _unreadable(text: str, why: str) -> Exception:
    return bad_request(f'unable to parse requirement: {why} (in "{text}")')


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Return the selector of a metav1.LabelSelector: None is nothing, {} everything."""
    if selector is None:
        return NOTHING
    labels = (selector.get("matchLabels") or {}).items()
    found = [Requirement(key, "in", frozenset({value})) for key, value in labels]
    for expression in selector.get("matchExpressions") or ():
        operator = _OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            raise bad_request(
                f'"{expression.get("operator")}" is not a valid label selector operator'
            )
        values = frozenset(expression.get("values") or ())
        found.append(Requirement(expression.get("key", ""), operator, values))
    return LabelSelector(tuple(found))


def match_labels(labels: Mapping[str, str] | None) -> LabelSelector:
    """Return the selector of a Service or ReplicationController: a plain map.

    Without entries it selects nothing: such a Service has endpoints of its own making.
    """
    if not labels:
        return NOTHING
    return label_selector({"matchLabels": labels})


_SHAPES = {"In": "{} in ({})", "NotIn": "{} notin ({})", "Exists": "{}", "DoesNotExist": "!{}"}


def selector_terms(selector: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the terms of an object's selector, each with its label's key, as text.

    ``matchLabels`` sorted, then ``matchExpressions`` as they stand. A selector with neither
    is a ReplicationController's, a plain map.
    """
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        selector = {"matchLabels": selector}
    labels = sorted((selector.get("matchLabels") or {}).items())
    terms = [(key, f"{key}={value}") for key, value in labels]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression.get("key"), ",".join(sorted(expression.get("values") or ()))
        shape = _SHAPES.get(expression.get("operator", ""), "{}")
        terms.append((key, shape.format(key, values)))
    return terms


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Conditions (field, equal?, value); all must hold."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    def matches(self, resource: Resource, obj: Object) -> bool:
        """Whether ``obj`` is meant."""
        return all((field_value(obj, path) == value) == equal for path, equal, value in self.terms)

    def exact(self, field: str) -> str | None:
        """Return the value ``field`` must have, if the selector pins it (a fast path)."""
        return next((v for f, equal, v in self.terms if equal and f == field), None)


_ALIASES = {  # fields that are called otherwise than where they stand
    "source": ("source", "component"),
    "status.podIPs": ("status", "podIPs"),
    "reportingComponent": ("reportingComponent",),
}
_FALSE_UNLESS_SET = ("spec.unschedulable", "spec.hostNetwork")


def field_value(obj: Object, path: str) -> str:
    """Return the text that a field selector on ``path`` compares with."""
    value: Any = obj
    for part in _ALIASES.get(path) or path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, list):  # status.podIPs: a list of {ip: …}
        return ",".join(str(entry.get("ip", "")) for entry in value)
    if path in _FALSE_UNLESS_SET:
        return "true" if value else "false"
    if value is None:
        return "0" if path in ("status.replicas", "status.successful") else ""
    return str(value)


def parse_fields(resource: Resource, text: str) -> FieldSelector:
    """Return the selector of a query parameter; ApiError 400 for a field that has none."""
    known = ("metadata.name", "metadata.namespace", *resource.field_labels)
    terms = []
    for term in _split(text):
        matched = re.fullmatch(r"([^=!]+)(!=|==|=)(.*)", term, re.DOTALL)
        if matched is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = matched.groups()
        if field not in known:
            raise bad_request(f"field label not supported: {field}")
        terms.append((field, operator != "!=", re.sub(r"\\([,=\\])", r"\1", value)))
    return FieldSelector(tuple(terms))


def _split(text: str) -> list[str]:
    """Split at commas that no backslash stands before."""
    return [term for term in re.findall(r"(?:[^,\\]|\\.)+", text, re.DOTALL) if term]
