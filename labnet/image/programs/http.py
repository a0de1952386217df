"""HTTP/1.1 as values: bytes to a request, a response to bytes.

``http.server`` costs 15 ms and 2 MB to import, and a hundred pods want neither. A request
with a head above 16 kB, a body above 1 MB or a chunked one is answered with the status that
says so and never read on. Nothing here touches a socket; :mod:`~labnet.image.programs.serving`
does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

HEAD_MAX = 16 * 1024
BODY_MAX = 1024 * 1024
REASONS = {
    200: "OK", 301: "Moved Permanently", 302: "Found", 400: "Bad Request", 404: "Not Found",
    405: "Method Not Allowed", 412: "Precondition Failed", 413: "Content Too Large",
    417: "Expectation Failed", 431: "Request Header Fields Too Large",
    500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came; header names in lower case."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes
    client: tuple[str, int]
    server: tuple[str, int]
    line: str

    def first(self, name: str, default: str = "") -> str:
        """Return the first value of query parameter ``name``."""
        return self.query.get(name, [default])[0]


@dataclass(frozen=True, slots=True)
class Response:
    """What to answer; ``then`` runs after the last byte was handed to the kernel."""

    body: str = ""
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    then: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Later:
    """An answer that has to be waited for, worked out in a thread of its own."""

    work: Callable[[], Response]


class BadRequest(Exception):
    """The bytes are not a request this server takes; ``status`` says why."""

    def __init__(self, status: int) -> None:
        super().__init__(REASONS[status])
        self.status = status


def parse(
    data: bytes, client: tuple[str, int], server: tuple[str, int]
) -> tuple[Request, int] | None:
    """Return the first request in ``data`` and its length, None while it is incomplete.

    Raises ``BadRequest`` for what will never become one.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > HEAD_MAX:
            raise BadRequest(431)
        return None
    line, *rest = data[:end].decode("latin-1").split("\r\n")
    parts = line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not parts[1]:
        raise BadRequest(400)
    headers = dict(_header(text) for text in rest)
    length = _body_length(headers)
    if len(data) < end + 4 + length:
        return None
    url = _split(parts[1])
    body = data[end + 4 : end + 4 + length]
    query = parse_qs(url[1], keep_blank_values=True)
    request = Request(parts[0], url[0], query, headers, body, client, server, line)
    return request, end + 4 + length


def _split(target: str) -> tuple[str, str]:
    try:
        url = urlsplit(target)
    except ValueError as error:
        raise BadRequest(400) from error
    return unquote(url.path) or "/", url.query


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name or name != name.strip():
        raise BadRequest(400)
    return name.lower(), value.strip()


def _body_length(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequest(400)
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise BadRequest(400)
    if int(text) > BODY_MAX:
        raise BadRequest(413)
    return int(text)


def keeps_alive(request: Request) -> bool:
    """Return whether the client wants the connection for another request."""
    wish = request.headers.get("connection", "").lower()
    return "keep-alive" in wish if request.line.endswith("1.0") else "close" not in wish


def encode(response: Response, server: str, *, alive: bool, head: bool = False) -> bytes:
    """Return the bytes of ``response``; without its body where ``head`` was asked."""
    body = response.body.encode()
    lines = [
        f"HTTP/1.1 {response.status} {REASONS.get(response.status, 'Status')}",
        f"Server: {server}",
        f"Date: {time.strftime('%a, %d %b %Y %H:%M:%S GMT', time.gmtime())}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(body)}",
        f"Connection: {'keep-alive' if alive else 'close'}",
        *(f"{name}: {value}" for name, value in response.headers),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if head else body)
