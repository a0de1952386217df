"""``resourceVersion`` in a request: how fresh an answer has to be.

For LIST: none is the newest; 0 anything; N at least as new as N, or with
``resourceVersionMatch=Exact`` exactly as it was then. For WATCH it is where to go on
from. A *continue* token carries the revision of a list's first page, so that all pages
show one moment.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass

from labnet.api.status import Cause, bad_request, invalid

_MATCHES = ("", "NotOlderThan", "Exact")


@dataclass(frozen=True, slots=True)
class Read:
    """How fresh: at least (or with match Exact: exactly) ``revision``; 0: whatever is there."""

    revision: int = 0
    match: str = ""
    limit: int = 0  # 0: everything
    start: str = ""  # the key to go on after, from a continue token

    @property
    def exact(self) -> bool:
        """Whether the answer is to be as of ``revision`` and no later."""
        return self.match == "Exact" or bool(self.start)


def parse(args: Mapping[str, str], *, watch: bool) -> Read:
    """Return what the query parameters say. Raises ApiError 400, 422."""
    version = args.get("resourceVersion", "")
    match = args.get("resourceVersionMatch", "")
    token = args.get("continue", "")
    if problem := _problem(version, match, token, args, watch=watch):
        raise invalid("", "ListOptions", "", [problem])
    limit = _number("limit", args.get("limit") or "0")
    if token:
        revision, start = _from_token(token)
        return Read(revision, match, limit, start)
    return Read(_number("resourceVersion", version or "0"), match, limit)


def _problem(
    version: str, match: str, token: str, args: Mapping[str, str], *, watch: bool
) -> Cause | None:
    field = "resourceVersionMatch"
    if not watch and "sendInitialEvents" in args:
        text = "Forbidden: sendInitialEvents is forbidden for list"
        return Cause("FieldValueForbidden", text, "sendInitialEvents")
    if match not in _MATCHES:
        text = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        return Cause("FieldValueNotSupported", text, field)
    if match and not version and "sendInitialEvents" not in args:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        return Cause("FieldValueForbidden", f"Forbidden: {why}", field)
    if match and token:
        why = "resourceVersionMatch is forbidden when continue is provided"
        return Cause("FieldValueForbidden", f"Forbidden: {why}", field)
    if match == "Exact" and version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        return Cause("FieldValueForbidden", f"Forbidden: {why}", field)
    return None


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise bad_request(f'invalid {name} "{text}": it is a whole number, or left out')
    return int(text)


def continue_token(revision: int, after: str) -> str:
    """Return the token of the page that begins after key ``after``."""
    return base64.urlsafe_b64encode(json.dumps([revision, after]).encode()).decode().rstrip("=")


def _from_token(token: str) -> tuple[int, str]:
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        revision, after = json.loads(text)
        return int(revision), str(after)
    except ValueError:
        raise bad_request("continue key is not valid: it is not one this server gave") from None
