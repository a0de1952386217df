"""Request bodies: bytes in one of three forms, out comes a JSON object.

kubectl sends JSON for files and protobuf for what its typed commands build; scripts
send YAML. A missing Content-Type means JSON (the Python client leaves it out).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from labnet.api.meta import Object

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
    raise NotImplementedError


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
    raise NotImplementedError


def decode_options(body: bytes, content_type: str) -> Object:
    """Return DeleteOptions; an empty body is an empty object. Raises ApiError 400, 415."""
    raise NotImplementedError
