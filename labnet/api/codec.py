"""Request bodies: bytes in one of three forms, out comes a JSON object.

kubectl sends JSON for files and protobuf for what its typed commands build; scripts
send YAML. A missing Content-Type means JSON (the Python client leaves it out).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from labnet.api import protobuf, strict
from labnet.api.meta import Object
from labnet.api.schema import shape_of
from labnet.api.status import bad_request, unsupported_media_type

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
READABLE = (JSON, YAML, PROTOBUF)


class FieldValidation(Enum):
    """What to do about fields nobody knows: refuse, warn, or say nothing."""

    STRICT = "Strict"
    WARN = "Warn"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True)
class Decoded:
    """An object without its unknown fields, and the warnings about them."""

    object: Object
    warnings: tuple[str, ...] = ()  # texts for `Warning: 299 - "…"` headers


def field_validation(text: str) -> FieldValidation:
    """Return the mode the query parameter ``fieldValidation`` names ("" is Warn); 400."""
    try:
        return FieldValidation(text or "Warn")
    except ValueError:
        raise bad_request(
            f'fieldValidation: Unsupported value: "{text}": '
            'supported values: "Ignore", "Warn", "Strict"'
        ) from None


def decode(
    body: bytes,
    content_type: str,
    api_version: str,
    kind: str,
    validation: FieldValidation = FieldValidation.WARN,
) -> Decoded:
    """Return the object in ``body``.

    ``api_version`` and ``kind`` are what the URL stands for: filled in where the body
    lacks them; a body of another kind is a 400. ("", "") takes what the body says.
    Raises ApiError 400 (not parseable, strict decoding error), 415.
    """
    obj, duplicates = _parse(body, content_type)
    return checked(_typed(obj, api_version, kind), validation, duplicates)


def decode_options(body: bytes, content_type: str) -> Object:
    """Return DeleteOptions; an empty body is an empty object. Raises ApiError 400, 415."""
    if not body.strip():
        return {}
    obj, _ = _parse(body, content_type)
    # A typed client says meta.k8s.io/v1, or the group of the object it deletes.
    typed = obj | {"apiVersion": "v1", "kind": obj.get("kind") or "DeleteOptions"}
    return checked(typed, FieldValidation.IGNORE).object


def checked(obj: Object, validation: FieldValidation, duplicates: tuple[str, ...] = ()) -> Decoded:
    """Return ``obj`` without unknown fields, or refuse them; ApiError 400.

    A kind that has no schema is taken as it is.
    """
    kind, version = obj.get("kind", ""), obj.get("apiVersion", "")
    shape = shape_of(version, kind)
    problems = [f'duplicate field "{path}"' for path in duplicates]
    if shape is not None:
        try:
            obj, unknown = strict.prune(obj, shape)
        except strict.TypeMismatch as mismatch:
            raise _unusable(version, kind, str(mismatch)) from None
        problems += [f'unknown field "{path}"' for path in unknown]
    if problems and validation is FieldValidation.STRICT:
        raise _unusable(version, kind, "strict decoding error: " + ", ".join(problems))
    silent = validation is FieldValidation.IGNORE
    return Decoded(obj, () if silent else tuple(problems))


def _unusable(api_version: str, kind: str, why: str) -> Exception:
    version = api_version.rpartition("/")[2]
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def _typed(obj: Object, api_version: str, kind: str) -> Object:
    said_kind, said_version = obj.get("kind") or kind, obj.get("apiVersion") or api_version
    if kind and said_kind != kind:
        raise bad_request(
            f'{said_kind} in version "{said_version}" cannot be handled as a {kind}: '
            f"converting ({said_kind}) to ({kind}): unknown conversion"
        )
    if api_version and said_version != api_version:
        raise bad_request(
            f"the API version in the data ({said_version}) does not match "
            f"the expected API version ({api_version})"
        )
    return {**obj, "kind": said_kind, "apiVersion": said_version}


def _parse(body: bytes, content_type: str) -> tuple[Object, tuple[str, ...]]:
    media = content_type.partition(";")[0].strip().lower() or JSON
    if media == PROTOBUF:
        return protobuf.decode(body), ()
    if media == JSON or media.endswith("+json"):
        return parse_json(body)
    if media in (YAML, "application/x-yaml", "text/yaml"):
        return parse_yaml(body), ()
    raise unsupported_media_type(READABLE)


def parse_json(body: bytes) -> tuple[Object, tuple[str, ...]]:
    """Return the object in ``body`` and the paths of fields written twice; ApiError 400."""
    doubled: list[tuple[Object, str]] = []

    def collect(pairs: list[tuple[str, Any]]) -> Object:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            doubled.extend((found, name) for name in found if names.count(name) > 1)
        return found

    try:
        obj = json.loads(body, object_pairs_hook=collect, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _unparseable(error) from None
    return _object(obj), tuple(_paths(obj, doubled)) if doubled else ()


def parse_yaml(body: bytes) -> Object:
    """Return the object in a YAML body; ApiError 400."""
    import yaml  # only here: JSON is what nearly everybody sends

    try:
        return _object(json.loads(json.dumps(yaml.safe_load(body), default=str)))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise _unparseable(error) from None


def _no_constant(name: str) -> None:
    raise ValueError(f"invalid character '{name[0]}' looking for beginning of value")


def _unparseable(error: Exception) -> Exception:
    return bad_request(f"couldn't get version/kind; json parse error: {error}")


def _object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{_TOKENS.get(type(value), 'value')} into Go value of type struct"
        )
    for name in ("kind", "apiVersion"):
        if not isinstance(value.get(name), str | None):
            raise bad_request(f"couldn't get version/kind; json parse error: {name} is no string")
    return value


_TOKENS = {list: "array", str: "string", int: "number", float: "number", bool: "bool"}


def _paths(value: Any, doubled: list[tuple[Object, str]], path: str = "") -> Iterator[str]:
    """Yield where each doubled field stands."""
    if isinstance(value, dict):
        yield from (f"{path}{name}" for owner, name in doubled if owner is value)
        for name, child in value.items():
            yield from _paths(child, doubled, f"{path}{name}.")
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from _paths(child, doubled, f"{path[:-1]}[{number}].")
