"""A placeholder socket for every node port.

The kernel translates a packet to a node port before any socket sees it, so nothing needs
to listen there. kube-proxy opens the port all the same and never accepts: that shows the
port in ``ss -l``, keeps other programs from taking it, and finds out when one already
has, in which case the rules must not silently take that program's traffic away.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from labnet.errors import LabnetError, OpFailed
from labnet.proxy.model import Portal


@dataclass(frozen=True, slots=True, order=True)
class NodePort:
    """A port of the node, for one protocol (TCP, UDP, SCTP)."""

    protocol: str
    port: int

    def __str__(self) -> str:
        """Return e.g. ``TCP 30001``."""
        return f"{self.protocol} {self.port}"


class Closable(Protocol):
    """Something that holds a port until it is closed."""

    def close(self) -> None:
        """Let go of the port."""


class PortOpener(Protocol):
    """Opens a node port, or raises ``LabnetError`` when somebody else has it."""

    def __call__(self, port: NodePort) -> Closable:
        """Return what holds ``port``."""


def node_ports(portals: Iterable[Portal]) -> dict[NodePort, str]:
    """Return the node ports of ``portals``, each with its service's ``namespace/name``."""
    return {
        NodePort(p.port.protocol, p.port.node_port): p.port.key for p in portals if p.port.node_port
    }


def open_port(port: NodePort) -> Closable:
    """Bind ``port`` on every address of this node (a ``PortOpener``)."""
    kind, number = _KINDS[port.protocol]
    try:
        holder = socket.socket(socket.AF_INET, kind, number)
    except OSError as error:  # a kernel without SCTP
        raise OpFailed(f"port {port}: {error.strerror}") from error
    try:
        # A restarted kube-proxy must not wait for old connections' TIME_WAIT.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(port.protocol == "TCP"))
        holder.bind(("", port.port))
        if kind == socket.SOCK_STREAM:
            holder.listen(1)
    except OSError as error:
        holder.close()
        raise OpFailed(f"port {port}: {error.strerror}") from error
    return holder


_KINDS = {
    "TCP": (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    "UDP": (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
    "SCTP": (socket.SOCK_STREAM, socket.IPPROTO_SCTP),
}


class NodePorts:
    """The placeholders that are open. Close it to let go of all."""

    def __init__(self, opener: PortOpener = open_port) -> None:
        self._opener = opener
        self._open: dict[NodePort, Closable] = {}

    def acquire(self, wanted: Mapping[NodePort, str]) -> dict[NodePort, LabnetError]:
        """Open what is wanted and not open yet; return what could not be had, and why."""
        failed: dict[NodePort, LabnetError] = {}
        for port in sorted(wanted.keys() - self._open.keys()):
            try:
                self._open[port] = self._opener(port)
            except LabnetError as error:
                failed[port] = error
        return failed

    def release(self, wanted: Mapping[NodePort, str]) -> None:
        """Close what is no longer wanted; call it once its rules are gone."""
        for port in sorted(self._open.keys() - wanted.keys()):
            self._open.pop(port).close()

    def close(self) -> None:
        """Close all."""
        self.release({})
