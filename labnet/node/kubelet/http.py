"""HTTP/1.1 as far as the kubelet's server needs it: one request, one answer, no body.

Only the API server calls, with GET requests; ``http.server`` would cost more to import
than this costs to write. Every answer ends its connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote

from labnet.errors import LabnetError

HEAD_MAX = 64 * 1024
REASONS = {
    101: "Switching Protocols", 200: "OK", 400: "Bad Request", 401: "Unauthorized",
    404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error",
    501: "Not Implemented", 503: "Service Unavailable",
}  # fmt: skip


class HttpError(LabnetError):
    """A request that is answered with ``code`` and the message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Request:
    """A request's head; header names in lower case."""

    method: str
    path: tuple[str, ...]  # its parts, unquoted
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]

    def flag(self, name: str) -> bool:
        """Return whether query parameter ``name`` is true."""
        return self.last(name) in ("1", "true", "True", "TRUE", "t", "T")

    def last(self, name: str) -> str:
        """Return query parameter ``name``, "" if it is not there."""
        return self.query.get(name, ("",))[-1]

    def number(self, name: str) -> int | None:
        """Return query parameter ``name`` as a number ≥ 0. Raises ``HttpError``."""
        text = self.last(name)
        if not text:
            return None
        if not (text.isascii() and text.isdigit()):
            raise HttpError(400, f"{name} must be a number, not {text!r}")
        return int(text)


def parse(head: bytes) -> Request:
    """Return the request that ``head``, up to its empty line, makes. Raises ``HttpError``."""
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise HttpError(400, "not an HTTP/1.1 request")
    path, _, query = parts[1].partition("?")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    names = tuple(unquote(part) for part in path.split("/") if part)
    return Request(parts[0], names, parse_qs(query, keep_blank_values=True), headers)


def answer(code: int, body: str, content_type: str = "text/plain; charset=utf-8") -> bytes:
    """Return a whole answer."""
    data = body.encode()
    return head(code, content_type, f"Content-Length: {len(data)}") + data


def head(code: int, content_type: str, *more: str) -> bytes:
    """Return the head of an answer."""
    lines = (
        f"HTTP/1.1 {code} {REASONS[code]}",
        f"Content-Type: {content_type}",
        "Connection: close",
        *more,
    )
    return "\r\n".join((*lines, "", "")).encode()


def chunk(data: bytes) -> bytes:
    """Return a piece of a chunked body; an empty one ends it."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
