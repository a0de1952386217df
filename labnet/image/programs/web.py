"""What stands in for nginx and httpd: a page that says who answered and whom it saw.

The two things a network lesson wants from a web server are which pod a balanced
connection reached, and which source address was left after masquerading. So every
path answers with the pod, its node, the address the packet was delivered to and the
address it came from, and each request leaves one line in the log, in nginx's format.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence

from labnet.image.programs.http import Request, Response
from labnet.image.programs.serving import HttpService, Loop, say

PORT = 80


def page(request: Request) -> Response:
    """Return the page: pod, node, delivered to, seen client."""
    if request.method not in ("GET", "HEAD", "POST"):
        return Response("method not allowed\n", 405, headers=(("Allow", "GET, HEAD, POST"),))
    return Response(
        f"pod: {socket.gethostname()}\n"
        f"node: {os.environ.get('LABNET_NODE', '')}\n"
        f"server: {request.server[0]}:{request.server[1]}\n"
        f"client: {request.client[0]}\n"
    )


def access_line(request: Request, response: Response, when: str) -> str:
    """Return the line nginx' default ``log_format combined`` would write."""
    agent = request.headers.get("user-agent", "-")
    referer = request.headers.get("referer", "-")
    size = 0 if request.method == "HEAD" else len(response.body.encode())
    return (
        f'{request.client[0]} - - [{when}] "{request.line}" {response.status} {size} '
        f'"{referer}" "{agent}"'
    )


def _log(request: Request, response: Response) -> None:
    say(access_line(request, response, time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime())))


def main(argv: Sequence[str]) -> int:
    """Serve on port 80 until SIGTERM; ``argv[0]`` says which server to be."""
    name = "Apache" if argv and argv[0].startswith("httpd") else "nginx"
    loop = Loop()
    try:
        loop.serve_http(PORT, HttpService(page, f"{name} (labnet)", _log))
    except OSError as error:
        say(f"{name}: bind() to 0.0.0.0:{PORT} failed ({error.strerror})")
        return 1
    loop.run()
    return 0
