"""What `exec`, `shell` and `forward` can be pointed at, parsed from the command line.

A TARGET is a host's name (`node1`, `client`, `control-plane`) or ``kind/name`` as kubectl
writes it: ``pod/web-0``, ``svc/my-nginx``. A port is given as ``LOCAL:REMOTE``; ``:REMOTE``
lets the system choose the local one, and a single number means both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from labnet.errors import LabnetError

Kind = Literal["host", "pod", "service"]
_KINDS: dict[str, Kind] = {
    "pod": "pod",
    "pods": "pod",
    "po": "pod",
    "svc": "service",
    "service": "service",
    "services": "service",
    "node": "host",
    "nodes": "host",
}
_PORT_MAX = 65535


@dataclass(frozen=True, slots=True)
class Target:
    """A host, a pod or a service."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Ports:
    """Where to listen on this machine (0: any) and which port to reach there."""

    local: int
    remote: str  # a number or a port's name


def parse_target(text: str) -> Target:
    """Return the target that ``text`` names."""
    kind, slash, name = text.partition("/")
    if not slash:
        return Target("host", text)
    if kind not in _KINDS or not name or "/" in name:
        raise LabnetError(
            f"{text!r} names no target", hint="use a host's name, pod/NAME or svc/NAME"
        )
    return Target(_KINDS[kind], name)


def parse_ports(text: str) -> Ports:
    """Return the ports that ``LOCAL:REMOTE``, ``:REMOTE`` or ``PORT`` means."""
    local, colon, remote = text.partition(":")
    if not colon:
        remote = local
    if not remote or (remote.isdigit() and not 0 < int(remote) <= _PORT_MAX):
        raise _wrong_ports(text)
    if not local:
        return Ports(0, remote)
    if local.isdigit() and int(local) <= _PORT_MAX:
        return Ports(int(local), remote)
    if not colon:  # a port's name alone: there is no local number in it
        return Ports(0, remote)
    raise _wrong_ports(text)


def _wrong_ports(text: str) -> LabnetError:
    return LabnetError(
        f"{text!r} is no pair of ports", hint="use LOCAL:REMOTE, like 8080:80, or :80 for any"
    )
