"""kube-proxy's pass without a kernel: what it writes, opens, forgets and reports."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from labnet.errors import OpFailed
from labnet.kernel.netfilter_fake import FakeNetfilter
from labnet.node.kube_proxy.iptables import IptablesMode
from labnet.node.kube_proxy.mode import Settings
from labnet.node.kube_proxy.node_ports import Closable, NodePort, NodePorts
from labnet.node.kube_proxy.syncer import Syncer
from labnet.plan.conntrack import Connection
from labnet.plan.netfilter import NetfilterState
from tests.flow.cluster import CONFIG, A, B, endpoints, node_port, service

SETTINGS = Settings("node1", IPv4Address("192.168.50.11"), IPv4Network("10.244.0.0/16"))
Json = dict[str, Any]


class FakeNode(FakeNetfilter):
    """netfilter with a connection tracker."""

    def __init__(self) -> None:
        super().__init__()
        self.flows: set[Connection] = set()

    def connections(self, protocol: int) -> tuple[Connection, ...]:
        return tuple(c for c in self.flows if c.protocol == protocol)

    def forget(self, connections: Iterable[Connection]) -> None:
        self.flows -= set(connections)


class Sockets:
    """Hands out node ports, except those that are taken."""

    def __init__(self) -> None:
        self.held: set[NodePort] = set()
        self.taken: set[NodePort] = set()

    def __call__(self, port: NodePort) -> Closable:
        if port in self.taken:
            raise OpFailed(f"port {port}: Address already in use")
        self.held.add(port)
        sockets = self

        class Held:
            def close(self) -> None:
                sockets.held.discard(port)

        return Held()


class World:
    """A syncer and everything it touches."""

    def __init__(self) -> None:
        self.node = FakeNode()
        self.sockets = Sockets()
        self.reports: list[tuple[str, str, str]] = []
        self.restart()

    def restart(self) -> None:
        mode = IptablesMode(CONFIG, self.node)
        self.syncer = Syncer(SETTINGS, mode, self.node, self._report, NodePorts(self.sockets))

    def _report(self, reason: str, message: str, service: str) -> None:
        self.reports.append((reason, message, service))

    def sync(self, services: list[Json], slices: list[Json]) -> int:
        """Sync and return how many transactions that took."""
        before = len(self.node.log)
        self.syncer.sync(services, slices)
        return len(self.node.log) - before

    def rules(self) -> str:
        tables = self.node.state.tables.values()
        return "\n".join(r for chains in tables for rules in chains.values() for r in rules)


@pytest.fixture
def world() -> World:
    return World()


def versioned(obj: Json, version: int) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


WEB = service("web", "10.96.0.10", ports=node_port(30080))
DNS = service("dns", "10.96.0.53", ports=[{"port": 53, "protocol": "UDP"}])
PORT = NodePort("TCP", 30080)


def dns(*addresses: str, version: int = 1) -> Json:
    ports = [{"port": 5353, "protocol": "UDP"}]
    return versioned(endpoints("dns", *addresses, ports=ports), version)


def test_second_sync_does_nothing(world: World) -> None:
    assert world.sync([WEB], [endpoints("web", A, B)])
    assert world.sync([WEB], [endpoints("web", A, B)]) == 0


def test_a_restarted_proxy_writes_nothing(world: World) -> None:
    world.sync([WEB, DNS], [endpoints("web", A, B), dns(A)])
    world.restart()

    assert world.sync([WEB, DNS], [endpoints("web", A, B), dns(A)]) == 0


def test_a_restarted_proxy_removes_what_went_meanwhile(world: World) -> None:
    world.sync([WEB, DNS], [endpoints("web", A), dns(A)])
    world.restart()
    world.sync([DNS], [dns(A)])

    assert "flow/web" not in world.rules()
    assert "flow/dns" in world.rules()


def test_rules_that_somebody_flushed_come_back(world: World) -> None:
    world.sync([WEB], [endpoints("web", A)])
    before = world.node.state
    world.node.state = NetfilterState({"filter": before.tables["filter"]})
    world.sync([WEB], [endpoints("web", A)])

    assert world.node.state == before


def test_a_new_version_of_a_slice_is_noticed(world: World) -> None:
    world.sync([WEB], [versioned(endpoints("web", A), 1)])
    world.sync([WEB], [versioned(endpoints("web", B), 2)])

    assert f"to-destination {B}" in world.rules()
    assert f"to-destination {A}" not in world.rules()


def test_node_ports_are_held_as_long_as_their_service(world: World) -> None:
    world.sync([WEB], [])
    assert world.sockets.held == {PORT}

    world.sync([], [])
    assert world.sockets.held == set()


def test_a_node_port_that_a_program_has_is_left_to_it_and_reported_once(world: World) -> None:
    world.sockets.taken = {PORT}
    for _ in range(2):
        world.sync([WEB], [endpoints("web", A)])

    assert "--dport 30080" not in world.rules()
    assert "10.96.0.10" in world.rules()
    assert world.reports == [
        (
            "PortUnavailable",
            "cannot open port TCP 30080: Address already in use; skipping this node port",
            "flow/web",
        )
    ]


def test_a_node_port_that_becomes_free_is_taken(world: World) -> None:
    world.sockets.taken = {PORT}
    world.sync([WEB], [endpoints("web", A)])
    world.sockets.taken = set()
    world.sync([WEB], [endpoints("web", A)])

    assert "--dport 30080" in world.rules()
    assert world.sockets.held == {PORT}


def test_a_refused_rule_is_reported(world: World) -> None:
    world.node.refuse = {"flow/dns cluster IP"}
    world.sync([WEB, DNS], [endpoints("web", A), dns(A)])

    assert [reason for reason, _, _ in world.reports] == ["FailedToSyncRules"]
    assert "flow/web" in world.rules()


CLIENT = (IPv4Address("10.244.9.9"), 40000)
VIRTUAL = (IPv4Address("10.96.0.53"), 53)


def flow(replier: str, port: int = 5353) -> Connection:
    return Connection(17, CLIENT, VIRTUAL, (IPv4Address(replier), port))


@pytest.mark.parametrize(
    "restarts", [pytest.param(False, id="running"), pytest.param(True, id="restarted")]
)
def test_udp_flows_to_an_endpoint_that_went_are_forgotten(world: World, restarts: bool) -> None:
    world.sync([DNS], [dns(A, B)])
    world.node.flows = {flow(A), flow(B)}
    if restarts:
        world.restart()
    world.sync([DNS], [dns(B, version=2)])

    assert world.node.flows == {flow(B)}


def test_a_udp_flow_from_before_the_first_endpoint_is_forgotten(world: World) -> None:
    world.sync([DNS], [])
    world.node.flows = {flow("10.96.0.53", 53)}
    world.sync([DNS], [dns(A, version=2)])

    assert world.node.flows == set()


def test_flows_of_a_deleted_udp_service_are_forgotten(world: World) -> None:
    world.sync([DNS], [dns(A)])
    world.node.flows = {flow(A)}
    world.sync([], [])

    assert world.node.flows == set()


def test_a_connection_tracker_that_fails_costs_no_rules(world: World) -> None:
    def broken(protocol: int) -> tuple[Connection, ...]:
        raise OpFailed("conntrack -L: Protocol not supported")

    world.node.connections = broken  # type: ignore[method-assign]
    world.sync([DNS], [dns(A)])

    assert "flow/dns" in world.rules()
