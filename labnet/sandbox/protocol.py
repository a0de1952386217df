"""The zygote's language: one JSON datagram asks, one answers, descriptors ride beside.

PID 1 of a lab takes requests on a ``SOCK_SEQPACKET`` unix socket, which keeps the
boundaries of messages, so a request is just a JSON object with a ``verb``. Here is the
pure half: specs and results to and from JSON, and errors, which are raised at the caller
as the class they had inside the lab. Nothing in this module opens anything.

A request ``{"verb": "signal", "id": …, "signal": 15}`` is answered by an object with the
results, or by ``{"error": {"kind": "NotFound", "message": …, "hint": …}}``.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from labnet import errors
from labnet.errors import LabnetError

T = TypeVar("T")
Message = dict[str, Any]


def request(verb: str, **arguments: object) -> bytes:
    """Return the datagram that asks for ``verb``; dataclasses may be among the arguments."""
    return dump({"verb": verb, **{name: plain(value) for name, value in arguments.items()}})


def dump(message: Mapping[str, object]) -> bytes:
    """Return ``message`` as one datagram."""
    return json.dumps(message, separators=(",", ":")).encode()


def load(datagram: bytes) -> Message:
    """Return the object in a datagram. Raises ``LabnetError`` if it is none."""
    try:
        message = json.loads(datagram)
    except ValueError as error:
        raise LabnetError(f"not a message of the zygote: {error}") from error
    if not isinstance(message, dict):
        raise LabnetError("not a message of the zygote: no object")
    return message


def result(datagram: bytes) -> Message:
    """Return what a reply says, or raise the error it carries."""
    message = load(datagram)
    if "error" in message:
        raise error_from(message["error"])
    return message


# -- errors -----------------------------------------------------------------------------


def error_message(error: BaseException) -> Message:
    """Return the reply that carries ``error``; what labnet did not foresee keeps its type."""
    if isinstance(error, LabnetError):
        kind, text, hint = type(error).__name__, error.message, error.hint
    elif isinstance(error, OSError):
        kind, text, hint = "LabnetError", _of_system(error), ""
    else:
        kind, text, hint = "LabnetError", f"{type(error).__name__}: {error}", ""
    return {"error": {"kind": kind, "message": text, "hint": hint}}


def _of_system(error: OSError) -> str:
    """``path: No such file or directory``, as programs print it."""
    what = f"{error.filename}: " if error.filename else ""
    return f"{what}{error.strerror or error}"


def error_from(found: Mapping[str, Any]) -> LabnetError:
    """Return the exception that :func:`error_message` wrote down."""
    kind = getattr(errors, str(found.get("kind")), LabnetError)
    if not (isinstance(kind, type) and issubclass(kind, LabnetError)):
        kind = LabnetError
    return kind(str(found.get("message", "")), hint=str(found.get("hint", "")))


# -- specs ------------------------------------------------------------------------------


def plain(value: object) -> object:
    """Return ``value`` as JSON knows it: dataclasses become objects, defaults left out."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(found)
            for field in fields(value)
            if (found := getattr(value, field.name)) != field.default
        }
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value


def parse(cls: type[T], found: object) -> T:
    """Return the dataclass ``cls`` that :func:`plain` wrote down.

    Fields that are absent get their default. Raises ``LabnetError`` where the shape does
    not fit: a request may come from a component of another version.
    """
    if not isinstance(found, dict):
        raise LabnetError(f"{cls.__name__}: an object was expected, not {found!r}")
    hints = _hints(cls)  # type: ignore[arg-type]  # classes are hashable
    if unknown := found.keys() - hints.keys():
        raise LabnetError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
    try:
        return cls(**{name: _value(hints[name], value) for name, value in found.items()})
    except TypeError as error:
        raise LabnetError(f"{cls.__name__}: {error}") from error


@cache
def _hints(cls: type[object]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _value(hint: Any, value: Any) -> Any:
    """Return ``value`` in the type that a field's annotation asks for."""
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        kinds = [one for one in typing.get_args(hint) if one is not type(None)]
        return None if value is None else _value(kinds[0], value)
    if origin is tuple:
        return _tuple(typing.get_args(hint), value)
    if isinstance(hint, type) and is_dataclass(hint):
        return parse(hint, value)
    return value


def _tuple(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise LabnetError(f"a list was expected, not {value!r}")
    if kinds[-1] is Ellipsis:
        return tuple(_value(kinds[0], one) for one in value)
    return tuple(_value(kind, one) for kind, one in zip(kinds, value, strict=True))
