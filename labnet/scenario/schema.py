"""Does the first document have the shape of a Lab?

``lab.schema.json`` is the published JSON Schema (draft 2020-12); editors use it for
completion and this module for checking, so that the two cannot disagree. Only the
keywords that file uses are implemented, each with a message a person can act on: the
library validators know no line numbers and no "did you mean". A test checks this
walker against the ``jsonschema`` package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from importlib import resources
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from typing import Any

from labnet.scenario.problems import Problems, did_you_mean
from labnet.scenario.yaml import Located

Schema = Mapping[str, Any]
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_ARTICLE = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


def text() -> str:
    """Return the published JSON Schema of the Lab document."""
    return (resources.files(__package__) / "lab.schema.json").read_text()


def check(document: Located, problems: Problems) -> None:
    """Add every way in which ``document`` departs from the schema."""
    _check(document, json.loads(text()), "", problems)


def is_ipv4(value: str) -> bool:
    """Whether ``value`` is a dotted IPv4 address."""
    try:
        IPv4Address(value)
    except AddressValueError:
        return False
    return True


def _cidr_problem(value: str) -> str:
    try:
        IPv4Network(value)
    except (AddressValueError, NetmaskValueError):
        return "is not an IPv4 network like 10.244.0.0/16"
    except ValueError:  # host bits set
        return f"has host bits set; did you mean {IPv4Network(value, strict=False)}?"
    return "" if "/" in value else f"has no prefix length; write {value}/24 or another length"


def _label_problem(value: str) -> str:
    if _LABEL.fullmatch(value):
        return ""
    return (
        "must be lower-case letters, digits and hyphens, and begin and end with a letter or digit"
    )


_FORMATS: dict[str, Callable[[str], str]] = {
    "ipv4": lambda value: "" if is_ipv4(value) else "is not an IPv4 address",
    "ipv4-cidr": _cidr_problem,
    "dns-label": _label_problem,
}


def _check(item: Located, schema: Schema, path: str, problems: Problems) -> None:
    if "oneOf" in schema:
        _check(item, _branch(item, schema["oneOf"]), path, problems)
        return
    wanted = schema.get("type")
    if wanted and not _is_a(item.value, wanted):
        problems.add(item.place, f"{path or 'the document'} must be {_ARTICLE[wanted]}")
        return
    _check_scalar(item, schema, path, problems)
    if isinstance(item.value, dict):
        _check_mapping(item, schema, path, problems)
    elif isinstance(item.value, list):
        _check_list(item, schema, path, problems)


def _branch(item: Located, branches: list[Schema]) -> Schema:
    for branch in branches:
        if _is_a(item.value, branch["type"]):
            return branch
    return branches[-1]


def _is_a(value: object, wanted: str) -> bool:
    if isinstance(value, bool) and wanted != "boolean":
        return False
    return isinstance(value, _TYPES[wanted])


def _check_scalar(item: Located, schema: Schema, path: str, problems: Problems) -> None:
    value = item.value
    if "const" in schema and value != schema["const"]:
        problems.add(item.place, f"{path} must be {schema['const']}, not {_show(value)}")
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        known = [str(one) for one in schema["enum"] if isinstance(one, str)]
        hint = did_you_mean(str(value), known)
        problems.add(
            item.place, f"{path} must be one of {', '.join(known)}, not {_show(value)}{hint}"
        )
    if isinstance(value, str):
        _check_text(item, value, schema, path, problems)
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            problems.add(item.place, f"{path} must be between {low} and {high}, not {value}")


def _same(value: object, other: object) -> bool:
    """Whether two scalars are one JSON value: to Python 0 equals False, to JSON it does not."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def _check_text(item: Located, value: str, schema: Schema, path: str, problems: Problems) -> None:
    if "pattern" in schema and not re.search(schema["pattern"], value):
        problems.add(item.place, f"{path} {_show(value)} must look like {schema['description']}")
    if len(value) > schema.get("maxLength", len(value)):
        problems.add(item.place, f"{path} may have {schema['maxLength']} characters at most")
    wrong = _FORMATS[schema["format"]](value) if "format" in schema else ""
    if wrong:
        problems.add(item.place, f"{path} {_show(value)} {wrong}")


def _check_mapping(item: Located, schema: Schema, path: str, problems: Problems) -> None:
    assert isinstance(item.value, dict)
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for key in schema.get("required", ()):
        if key not in item.value:
            problems.add(item.place, f"{path or 'the document'} needs {key}")
    for key, inner in item.value.items():
        at = f"{path}.{key}" if path else key
        if key in known:
            _check(inner, known[key], at, problems)
        elif others is False:
            place = (item.keys or {}).get(key, inner.place)
            where = path or "a Lab"
            problems.add(place, f'{where} has no field "{key}"{did_you_mean(key, known)}')
        elif isinstance(others, Mapping):
            _check(inner, others, at, problems)


def _check_list(item: Located, schema: Schema, path: str, problems: Problems) -> None:
    assert isinstance(item.value, list)
    low, high = schema.get("minItems", 0), schema.get("maxItems", len(item.value))
    if not low <= len(item.value) <= high:
        problems.add(item.place, f"{path} must have between {low} and {high} entries")
    for index, inner in enumerate(item.value):
        _check(inner, schema.get("items", {}), f"{path}[{index}]", problems)


def _show(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else json.dumps(value, default=str)
