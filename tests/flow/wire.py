"""The cluster of :mod:`tests.flow.cluster` out of real namespaces, with servers in it.

The process is in node1's namespace: ``eth0`` is a bridge to the other hosts, ``cni0`` one
to the pods. Sockets are made in the namespace they belong to and used from here; a
server answers with its pod's name and the address it saw.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.flow.cluster import PLACES, PORT, A, B, R
from tests.own_netns import CLONE_NEWNET, new_netns

_libc = ctypes.CDLL(None, use_errno=True)
_SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/conf/all/route_localnet": "1",
    "net/ipv4/icmp_ratelimit": "0",  # else the seventh REJECT of a second goes unsaid
}


def ip(*lines: str, netns: int | None = None) -> None:
    """Run ``ip`` commands in a batch, in a namespace."""
    inside = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{netns}"] if netns is not None else []
    subprocess.run([*inside, "ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


@contextlib.contextmanager
def entered(netns: int | None) -> Iterator[None]:
    """Be in ``netns`` for a moment, in this thread."""
    if netns is None:
        yield
        return
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if _libc.setns(netns, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        yield
    finally:
        _libc.setns(here, CLONE_NEWNET)
        os.close(here)


@dataclass
class Wire:
    """node1's neighbours, by name; ``None`` is node1 itself."""

    hosts: dict[str, int | None] = field(default_factory=dict)

    def socket(self, place: str, kind: int) -> socket.socket:
        """Return a socket in the namespace of ``place``, bound to its address."""
        with entered(self.hosts[place]):
            made = socket.socket(socket.AF_INET, kind)
        made.settimeout(0.4)
        if place == "stranger":
            made.bind((PLACES[place], 0))
        return made

    def ask(self, place: str, address: str, port: int, protocol: str = "tcp") -> tuple[str, str]:
        """Return (pod that answers, source it saw), or (REJECT or DROP, "")."""
        kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
        with self.socket(place, kind) as client:
            try:
                client.connect((address, port))
                client.send(b"?")
                name, source = client.recv(100).decode().split()
            except TimeoutError:
                return "DROP", ""
            except OSError:
                return "REJECT", ""
        return name, source


def serve(wire: Wire) -> threading.Thread:
    """Answer on every pod, TCP and UDP, until the process ends."""
    ready = selectors.DefaultSelector()
    for name in ("a", "b", "r"):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            server = wire.socket(name, kind)
            server.setblocking(False)
            server.bind((PLACES[name], PORT))
            if kind == socket.SOCK_STREAM:
                server.listen(64)
            ready.register(server, selectors.EVENT_READ, name)
    thread = threading.Thread(target=_answer, args=(ready,), daemon=True)
    thread.start()
    return thread


def _answer(ready: selectors.BaseSelector) -> None:
    while True:
        for key, _ in ready.select():
            server = key.fileobj
            assert isinstance(server, socket.socket)
            if server.type == socket.SOCK_DGRAM:
                _, (source, port) = server.recvfrom(100)
                server.sendto(f"{key.data} {source}".encode(), (source, port))
                continue
            connection, (source, _) = server.accept()
            with connection:
                connection.sendall(f"{key.data} {source}".encode())


def build() -> Wire:
    """Lay the wires of the cluster, in and around the namespace the caller is in."""
    client, node2, a, b = (new_netns() for _ in range(4))
    ip(
        "link set lo up",
        "link add eth0 type bridge",
        "link set eth0 up",
        f"addr add {PLACES['node']}/24 dev eth0",
        "link add cni0 type bridge",
        "link set cni0 up",
        "addr add 10.244.2.1/24 dev cni0",
        "route add default via 192.168.50.1",
        "route add 10.244.1.0/24 via 192.168.50.12",
    )
    for name, netns, bridge in (
        ("client", client, "eth0"),
        ("node2", node2, "eth0"),
        ("a", a, "cni0"),
        ("b", b, "cni0"),
    ):
        ip(
            f"link add port-{name} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{netns}",
            f"link set port-{name} master {bridge} up",
            f"link set port-{name} type bridge_slave hairpin {'on' if bridge == 'cni0' else 'off'}",
        )
    for name, value in _SYSCTLS.items():
        Path("/proc/sys", name).write_text(value)
    ip(
        "link set lo up",
        "link set eth0 up",
        f"addr add {PLACES['client']}/24 dev eth0",
        f"addr add {PLACES['stranger']}/24 dev eth0",
        f"route add default via {PLACES['node']}",
        netns=client,
    )
    ip(
        "link set lo up",
        "link set eth0 up",
        "addr add 192.168.50.12/24 dev eth0",
        f"addr add {R}/32 dev lo",
        f"route add 10.244.2.0/24 via {PLACES['node']}",
        netns=node2,
    )
    for netns, address in ((a, A), (b, B)):
        ip(
            "link set lo up",
            "link set eth0 up",
            f"addr add {address}/24 dev eth0",
            "route add default via 10.244.2.1",
            netns=netns,
        )
    hosts = {"client": client, "stranger": client, "node": None, "loopback": None}
    return Wire({**hosts, "a": a, "b": b, "r": node2})
