"""Would the API server take these manifests? Asked before anything is started.

The schema, defaults and validation are the API server's own (:mod:`labnet.api`), so a
manifest is refused here for exactly the reasons it would be refused there; only the
answer is better: it has a line and a column, and comes for all manifests at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from labnet.api import codec, defaults, meta, resources, validation
from labnet.api.codec import FieldValidation
from labnet.api.kinds import KINDS
from labnet.api.resource import Resource
from labnet.api.schema import shape_of
from labnet.api.status import ApiError
from labnet.scenario.problems import Place, Problems, did_you_mean
from labnet.scenario.yaml import Located

_UNKNOWN = re.compile(r'unknown field "([^"]*)"')
_STEP = re.compile(r"[^.\[\]]+")


def check(objects: Iterable[Located], problems: Problems) -> None:
    """Add every reason for which the API server would refuse one of ``objects``."""
    for one in objects:
        _check(one, problems)


def _check(one: Located, problems: Problems) -> None:
    obj = one.plain()
    resource = resources.by_kind(obj["apiVersion"], obj["kind"])
    if resource is None or "create" not in resource.verbs:
        problems.add(_place(one, "kind"), _unknown_kind(obj["apiVersion"], obj["kind"]))
        return
    try:
        decoded = codec.checked(obj, FieldValidation.WARN)
    except ApiError as error:
        problems.add(one.place, error.message)
        return
    for warning in decoded.warnings:
        _unknown_field(one, warning, problems)
    _validate(one, resource, decoded.object, problems)


def _validate(one: Located, resource: Resource, obj: dict[str, Any], problems: Problems) -> None:
    complete = deepcopy(obj)
    try:
        meta.namespace_of(resource, complete, _namespace(complete))
        defaults.apply(resource, complete)
        validation.check_new(resource, complete)
    except ApiError as error:
        causes = error.details.get("causes") or [{"message": error.message, "field": ""}]
        for cause in causes:
            place = _place(one, cause.get("field", ""))
            problems.add(place, f"{cause.get('field', '')}: {cause['message']}".lstrip(": "))


def _namespace(obj: dict[str, Any]) -> str:
    return str(meta.metadata_of(obj).get("namespace") or "default")


def _unknown_kind(api_version: str, kind: str) -> str:
    known = {r.kind: r.api_version for r in KINDS if "create" in r.verbs}
    if kind in known:
        served = sorted(r.api_version for r in KINDS if r.kind == kind)
        return f"{kind} is served as {' and '.join(served)}, not as {api_version}"
    return f"the lab's API server has no {kind} in {api_version}{did_you_mean(kind, known)}"


def _unknown_field(one: Located, warning: str, problems: Problems) -> None:
    found = _UNKNOWN.search(warning)
    path = found[1] if found else ""
    parent, _, field = path.rpartition(".")
    above = one.get(*_steps(parent))
    place = (above.keys or {}).get(field, above.place) if above else one.place
    problems.add(place, warning + did_you_mean(field, _fields(one, parent)))


def _fields(one: Located, path: str) -> Iterable[str]:
    """Return the names that the schema knows at ``path``."""
    obj = one.plain()
    shape = shape_of(obj["apiVersion"], obj["kind"])
    for step in _steps(path):
        if shape is not None:
            shape = shape.item if isinstance(step, int) else shape.fields.get(step)
    return shape.fields if shape is not None else ()


def _place(one: Located, path: str) -> Place:
    """Return where ``path`` (``spec.ports[0].port``) stands, or the nearest thing above it."""
    here = one
    for step in _steps(path):
        inner = here.get(step)
        if inner is None:
            break
        here = inner
    return here.place


def _steps(path: str) -> list[str | int]:
    return [int(step) if step.isdigit() else step for step in _STEP.findall(path)]
