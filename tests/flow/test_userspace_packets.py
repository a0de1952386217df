"""Packets to services in userspace mode, through a real kernel and a real relay.

The table is its own, because the mode is: who answers is whose turn it is, every endpoint
sees the node, and what came after Kubernetes 1.1 (policies, source ranges) is not known.
A service without endpoints takes the connection and hangs up. External IPs are not in it:
here every neighbour is behind a bridge port, from where they are not taken.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from labnet.clock import SystemClock
from labnet.kernel.conntrack import LinuxConntrack
from labnet.kernel.netfilter import LinuxNetfilter
from labnet.kernel.relay import LinuxRelays
from labnet.node.kube_proxy.mode import Services, Settings
from labnet.node.kube_proxy.userspace import UserspaceMode
from labnet.proxy.services import service_portals
from labnet.proxy.userspace.rules import Style
from tests.flow.cluster import NODE, PLACES, SERVICES, SLICES, A, R
from tests.flow.wire import Wire, build, serve

pytestmark = [pytest.mark.netns, pytest.mark.iptables]

SETTINGS = Settings(NODE, IPv4Address(PLACES["node"]), IPv4Network("10.244.0.0/16"))
ROWS = (
    # source, destination, who answers: in turn, so each twice in four
    ("a", "10.96.0.20:80", "b r"),
    ("b", "10.96.0.10:80", "a r"),
    ("node", "10.96.0.10:80", "a r"),
    ("client", "10.96.0.10:80", "a r"),
    ("a", "10.96.0.53:53/udp", "a"),
    ("node", "10.96.0.53:53/udp", "a"),
    ("b", "10.96.0.22:80", "a"),
    ("a", "10.96.0.40:80", "a"),  # itself: an ordinary connection from the node
    ("client", "192.168.50.11:30080", "b r"),
    ("client", "10.244.2.1:30080", "b r"),
    ("node", "192.168.50.11:30080", "b r"),
    ("loopback", "127.0.0.1:30080", "b r"),
    ("a", "192.168.50.11:30080", "b r"),
    ("a", "10.96.0.30:80", "HANGUP"),
    ("client", "192.168.50.11:30030", "HANGUP"),
    ("a", "10.96.0.22:81", "HANGUP"),
    ("a", "10.96.0.50:80", "r"),
    ("b", "10.96.0.51:80", "a r"),
    ("client", "192.168.50.11:30060", "a r"),
    ("client", "192.168.50.11:30070", "r"),
    ("stranger", "203.0.113.80:80", "a"),
    ("a", "10.96.0.23:80", "b"),
)


def planned(slices: list[dict[str, Any]] = SLICES) -> Services:
    found: dict[str, Any] = {}
    for service in SERVICES:
        name = service["metadata"]["name"]
        own = [s for s in slices if s["metadata"]["name"] == f"{name}-x"]
        found[f"flow/{name}"] = service_portals(service, own, NODE)
    return found


@contextlib.contextmanager
def running(style: Style = "current") -> Iterator[UserspaceMode]:
    with LinuxNetfilter() as kernel, LinuxConntrack() as flows, LinuxRelays() as relays:
        yield UserspaceMode(SETTINGS, kernel, flows, relays, SystemClock(), style)


def ask(wire: Wire, source: str, destination: str) -> tuple[str, str]:
    target, _, protocol = destination.partition("/")
    address, _, port = target.partition(":")
    kind = socket.SOCK_DGRAM if protocol else socket.SOCK_STREAM
    with wire.socket(source, kind) as client:
        client.settimeout(5)
        client.connect((address, int(port)))
        with contextlib.suppress(ConnectionError):  # hung up before it was asked
            client.send(b"?")
        try:
            name, _, seen = client.recv(100).decode().partition(" ")
        except ConnectionResetError:
            return "HANGUP", ""
        return name or "HANGUP", seen


@pytest.mark.usefixtures("own_netns")
@pytest.mark.parametrize("style", ["current", "v1.2"])
def test_every_row_of_the_table(style: Style) -> None:
    wire = build()
    serve(wire)
    nodes = {PLACES["node"], "10.244.2.1", ""}
    with running(style) as mode:
        mode.sync(planned())
        wrong = [
            f"{source} to {destination}: {answers} instead of {expected}"
            for source, destination, expected in ROWS
            if (answers := [ask(wire, source, destination) for _ in range(4)])
            and ({name for name, _ in answers} != set(expected.split()))
            | (not {seen for _, seen in answers} <= nodes)
        ]

    assert wrong == []


@pytest.mark.usefixtures("own_netns")
def test_a_client_stays_with_its_endpoint_until_that_goes() -> None:
    wire = build()
    serve(wire)
    with running() as mode:
        mode.sync(planned())
        (first,) = {ask(wire, "b", "10.96.0.75:80")[0] for _ in range(6)}
        left = [s for s in SLICES if s["metadata"]["name"] != "sticky-x"]
        mode.sync(planned([*left, _sticky({"a": R, "r": A}[first])]))
        assert {ask(wire, "b", "10.96.0.75:80")[0] for _ in range(4)} == {"a", "r"} - {first}


def _sticky(address: str) -> dict[str, Any]:
    (old,) = (s for s in SLICES if s["metadata"]["name"] == "sticky-x")
    kept = [e for e in old["endpoints"] if e["addresses"] == [address]]
    return {**old, "endpoints": kept}


@pytest.mark.usefixtures("own_netns")
def test_a_new_kube_proxy_takes_over_the_rules_of_the_one_before() -> None:
    wire = build()
    serve(wire)
    with running() as mode:
        mode.sync(planned())
        ask(wire, "a", "10.96.0.53:53/udp")
    with running() as mode:
        mode.sync(planned())
        assert {ask(wire, "b", "10.96.0.10:80")[0] for _ in range(4)} == {"a", "r"}
        assert ask(wire, "a", "10.96.0.53:53/udp")[0] == "a"
        mode.remove()
        with LinuxNetfilter() as kernel:
            assert "KUBE" not in str(kernel.observe_netfilter())
