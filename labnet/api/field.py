"""Problems of single fields, in the words of Kubernetes (``util/validation/field``).

A path as a person would write it, what kind of problem, the value, and the rule:
``spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from labnet.api.status import Cause


def shown(value: Any) -> str:
    """Return ``value`` as an error shows it: strings quoted, the rest as JSON."""
    if value is None:
        return "null"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def invalid(path: str, value: Any, rule: str) -> Cause:
    """The value breaks ``rule``."""
    return Cause("FieldValueInvalid", _body("Invalid value", value, rule), path)


def required(path: str, rule: str = "") -> Cause:
    """There is no value, and there has to be one."""
    return Cause("FieldValueRequired", "Required value" + (f": {rule}" if rule else ""), path)


def duplicate(path: str, value: Any) -> Cause:
    """Another element has that value already."""
    return Cause("FieldValueDuplicate", _body("Duplicate value", value), path)


def not_supported(path: str, value: Any, supported: Iterable[str]) -> Cause:
    """The value is not one of those there are."""
    rule = "supported values: " + ", ".join(f'"{v}"' for v in sorted(supported))
    return Cause("FieldValueNotSupported", _body("Unsupported value", value, rule), path)


def forbidden(path: str, rule: str) -> Cause:
    """No value may stand here, or it may not change."""
    return Cause("FieldValueForbidden", f"Forbidden: {rule}", path)


def not_found(path: str, value: Any) -> Cause:
    """The value names something that is not there."""
    return Cause("FieldValueNotFound", _body("Not found", value), path)


def _body(kind: str, value: Any, rule: str = "") -> str:
    return f"{kind}: {shown(value)}" + (f": {rule}" if rule else "")


def within(path: str, value: int, low: int, high: int) -> list[Cause]:
    """Return what is wrong with a number that has to lie between two others."""
    if low <= value <= high:
        return []
    return [invalid(path, value, f"must be between {low} and {high}, inclusive")]


def port(path: str, value: int) -> list[Cause]:
    """Return what is wrong with a port number."""
    return within(path, value, 1, 65535)


def non_negative(path: str, value: int) -> list[Cause]:
    """Return what is wrong with a number that counts something."""
    return [] if value >= 0 else [invalid(path, value, "must be greater than or equal to 0")]


def one_of(path: str, value: Any, supported: Iterable[str]) -> list[Cause]:
    """Return what is wrong with a value that has to be one of a few words."""
    supported = tuple(supported)
    return [] if value in supported else [not_supported(path, value, supported)]
