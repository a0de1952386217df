"""``agnhost netexec``: a web and UDP server made to be asked about the network.

``/clientip`` shows the source address that was left after every translation on the
way, ``/hostname`` which of many pods answered, ``/dial`` has the pod itself ask another
one and returns what it heard: a whole path tested from inside with one request. Shapes
follow kubernetes ``test/images/agnhost/netexec``.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping

from labnet.image.programs.http import Later, Request, Response
from labnet.image.programs.serving import HttpService, Loop, say

DIAL_TIMEOUT = 5.0


def hostname() -> str:
    """Return this pod's name as its uts namespace has it."""
    return socket.gethostname()


def _root(_request: Request) -> Response:
    return Response(f"NOW: {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} +0000 UTC")


def _hostname(_request: Request) -> Response:
    return Response(hostname())


def _clientip(request: Request) -> Response:
    return Response(f"{request.client[0]}:{request.client[1]}")


def _header(request: Request) -> Response:
    return Response(request.headers.get(request.first("key").lower(), ""))


def _echo(request: Request) -> Response:
    code = request.first("code", "200")
    if not code.isdigit() or not 200 <= int(code) <= 599:
        return Response("argument 'code' must be a valid HTTP status code\n", 400)
    return Response(request.first("msg"), int(code))


def _healthz(_request: Request) -> Response:
    return Response("")


def _exit(request: Request) -> Response:
    code = request.first("code", "0")
    if not code.isdigit() or int(code) > 255:
        return Response("argument 'code' must be an integer between 0 and 255\n", 400)
    return Response("", then=lambda: os._exit(int(code)))


def _shutdown(_request: Request) -> Response:
    return Response("", then=lambda: os._exit(0))


def _redirect(request: Request) -> Response:
    code = request.first("code", "302")
    if not code.isdigit() or not 300 <= int(code) <= 399:
        return Response("argument 'code' must be a redirect status\n", 400)
    where = request.first("location")
    if not where or "\r" in where or "\n" in where:
        return Response("argument 'location' is required\n", 400)
    return Response("", int(code), headers=(("Location", where),))


def _shell(request: Request) -> Response | Later:
    command = request.first("shellCommand") or request.first("cmd")
    if not command:
        return Response("argument 'cmd' is required\n", 400)

    def work() -> Response:
        import json
        import subprocess

        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
        answer = {"output": (done.stdout + done.stderr).decode(errors="replace")}
        if done.returncode:
            answer["error"] = f"exit status {done.returncode}"
        return Response(json.dumps(answer), content_type="application/json")

    return Later(work)


def _dial(request: Request) -> Response | Later:
    host, port = request.first("host"), request.first("port")
    protocol, tries = request.first("protocol", "http"), request.first("tries", "1")
    text = request.first("request", "hostname")
    if not host or not port.isdigit() or not tries.isdigit() or protocol not in ("http", "udp"):
        return Response("need host, port, protocol http or udp, tries\n", 400)
    ask = _ask_http if protocol == "http" else _ask_udp

    def work() -> Response:
        import json

        outcome = dialled(lambda: ask(host, int(port), text), int(tries))
        failed = len(outcome["errors"]) == int(tries)
        body = json.dumps({k: v for k, v in outcome.items() if v})
        return Response(body, 417 if failed else 200, "application/json")

    return Later(work)


def dialled(ask: Callable[[], str], tries: int) -> dict[str, list[str]]:
    """Ask ``tries`` times; return what was answered and what went wrong."""
    responses, errors = [], []
    for _ in range(tries):
        try:
            responses.append(ask())
        except OSError as error:
            errors.append(str(error))
    return {"responses": responses, "errors": errors}


def _ask_http(host: str, port: int, path: str) -> str:
    with socket.create_connection((host, port), DIAL_TIMEOUT) as sock:
        target = "/" + path.lstrip("/").replace(" ", "%20")
        sock.sendall(
            f"GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    return answer.partition(b"\r\n\r\n")[2].decode(errors="replace")


def _ask_udp(host: str, port: int, text: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(DIAL_TIMEOUT)
        sock.connect((host, port))
        sock.send(text.encode())
        return sock.recv(65535).decode(errors="replace")


ROUTES: Mapping[str, Callable[[Request], Response | Later]] = {
    "/": _root,
    "/hostname": _hostname,
    "/hostName": _hostname,
    "/clientip": _clientip,
    "/header": _header,
    "/echo": _echo,
    "/healthz": _healthz,
    "/exit": _exit,
    "/shutdown": _shutdown,
    "/redirect": _redirect,
    "/shell": _shell,
    "/dial": _dial,
}


def answer(request: Request) -> Response | Later:
    """Return netexec's answer; a path it does not know gets the time, as in life."""
    return ROUTES.get(request.path, _root)(request)


def answer_udp(data: bytes, client: tuple[str, int]) -> bytes | None:
    """Return the answer to one datagram: hostname, clientip, echo WORDS, else nothing."""
    command, _, rest = data.decode(errors="replace").strip().partition(" ")
    match command.lower():
        case "hostname":
            return hostname().encode()
        case "clientip":
            return f"{client[0]}:{client[1]}".encode()
        case "echo":
            return rest.encode()
        case _:
            return None


def _log(request: Request, _response: Response | Later) -> None:
    say(f"GET {request.path} from {request.client[0]}:{request.client[1]}")


def serve(http_port: int, udp_port: int) -> int:
    """Serve both ports until SIGTERM; -1 leaves one out."""
    loop = Loop()
    if http_port >= 0:
        loop.serve_http(http_port, HttpService(answer, "agnhost", _log))
    if udp_port >= 0:
        loop.serve_udp(udp_port, answer_udp)
    say(f"Started HTTP server on port {http_port}")
    say(f"Started UDP server on port  {udp_port}")
    loop.run()
    return 0
