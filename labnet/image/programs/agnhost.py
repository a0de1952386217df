"""agnhost: the test image of Kubernetes' own network tests, in its commonly used parts.

``netexec`` is a web and UDP server to aim at (who are you, whom do you see, dial
somebody else), ``connect`` a client whose last word is OK, TIMEOUT, REFUSED or DNS,
``serve-hostname`` and ``porter`` say one thing on one or many ports, ``pause`` nothing.
Flags, paths and answers follow kubernetes ``test/images/agnhost`` (its README).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from labnet.image.programs import connect, netexec, pause
from labnet.image.programs.http import Request, Response
from labnet.image.programs.serving import HttpService, Loop, say

VERSION = "2.53"


class UsageError(Exception):
    """The command line is not one agnhost knows."""


def flags(argv: Sequence[str], known: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the flags of ``argv`` over the defaults in ``known``, and the arguments.

    ``--name value``, ``--name=value`` and, for flags whose default is true or false,
    ``--name`` alone. Raises ``UsageError``.
    """
    values, rest = dict(known), []
    words = iter(argv)
    for word in words:
        if not word.startswith("--"):
            rest.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        if name not in known:
            raise UsageError(f"unknown flag: --{name}")
        if not equals:
            boolean = known[name] in ("true", "false")
            value = "true" if boolean else next(words, "")
        values[name] = value
    return values, rest


def _netexec(argv: Sequence[str]) -> int:
    values, _ = flags(
        argv,
        {"http-port": "8080", "udp-port": "8081", "sctp-port": "-1", "delay-shutdown": "0"},
    )
    return netexec.serve(int(values["http-port"]), int(values["udp-port"]))


def _connect(argv: Sequence[str]) -> int:
    values, rest = flags(argv, {"timeout": "1s", "protocol": "tcp", "udp-data": ""})
    if len(rest) != 1:
        raise UsageError("usage: agnhost connect [host:port] [--timeout 1s] [--protocol tcp|udp]")
    return connect.report(rest[0], connect.seconds(values["timeout"]), values["protocol"])


def _serve_hostname(argv: Sequence[str]) -> int:
    known = {"port": "9376", "tcp": "false", "udp": "false", "http": "true", "close": "false"}
    values, _ = flags(argv, known)
    port, name, loop = int(values["port"]), netexec.hostname(), Loop()
    if values["tcp"] == "true":
        loop.serve_tcp(port, lambda _client: name.encode())
    if values["udp"] == "true":
        loop.serve_udp(port, lambda _data, _client: name.encode())
    if values["http"] == "true" and values["tcp"] != "true":
        loop.serve_http(port, HttpService(lambda _: Response(name), "agnhost"))
    loop.run()
    return 0


def ports_served(environment: Mapping[str, str]) -> dict[int, str]:
    """Return port → answer from ``SERVE_PORT_80=answer`` and the like."""
    prefix = "SERVE_PORT_"
    found = ((k.removeprefix(prefix), v) for k, v in environment.items() if k.startswith(prefix))
    return {int(port): text for port, text in found if port.isdigit()}


def _porter(_argv: Sequence[str]) -> int:
    loop = Loop()
    for port, text in ports_served(os.environ).items():
        loop.serve_http(port, HttpService(_constantly(text), "agnhost"))
        say(f"Serving on port {port}.")
    loop.run()
    return 0


def _constantly(text: str) -> Callable[[Request], Response]:
    return lambda _request: Response(text)


COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "netexec": _netexec,
    "connect": _connect,
    "serve-hostname": _serve_hostname,
    "porter": _porter,
    "pause": pause.main,
}


def main(argv: Sequence[str]) -> int:
    """Run ``argv[1]`` with the rest as its arguments; return the exit code."""
    command = argv[1] if len(argv) > 1 else ""
    if command in ("--version", "version"):
        say(f"agnhost version {VERSION} (labnet)")
        return 0
    try:
        if command not in COMMANDS:
            raise UsageError(f'unknown command "{command}"; known: {", ".join(COMMANDS)}')
        return COMMANDS[command](argv[2:])
    except (UsageError, ValueError, OSError) as error:
        os.write(2, f"Error: {error}\n".encode())
        return 1
