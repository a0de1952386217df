"""Which remembered UDP flows are stale."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from labnet.plan.conntrack import Connection
from labnet.proxy.conntrack import frontends, stale
from labnet.proxy.model import Endpoint, Portal, ServicePort

IP = IPv4Address
NODE = IP("192.168.50.11")
DNS = Portal(
    ServicePort("kube-system", "dns", "", "UDP", IP("10.96.0.10"), 53, node_port=30053),
    cluster=(Endpoint(IP("10.244.1.2"), 53),),
)
TCP = Portal(ServicePort("default", "web", "", "TCP", IP("10.96.0.11"), 53))


def flow(destination: str, replier: str, port: int = 53, answer: int = 53) -> Connection:
    return Connection(17, (IP("10.244.9.9"), 4000), (IP(destination), port), (IP(replier), answer))


@pytest.mark.parametrize(
    ("connection", "is_stale"),
    [
        pytest.param(flow("10.96.0.10", "10.244.1.2"), False, id="to an endpoint"),
        pytest.param(flow("10.96.0.10", "10.244.1.9"), True, id="to an endpoint that went"),
        pytest.param(flow("10.96.0.10", "10.96.0.10"), True, id="never translated"),
        pytest.param(flow("192.168.50.11", "10.244.1.9", 30053), True, id="node port, gone"),
        pytest.param(flow("192.168.50.11", "10.244.1.2", 30053), False, id="node port, there"),
        pytest.param(
            flow("192.168.50.11", "192.168.50.11", 30053, 30053), True, id="node port, untranslated"
        ),
        pytest.param(
            flow("198.51.100.7", "198.51.100.7", 30053, 30053), False, id="somebody's port outside"
        ),
        pytest.param(flow("10.96.0.11", "10.96.0.11"), False, id="a TCP service"),
        pytest.param(flow("10.244.1.2", "10.244.1.2"), False, id="a pod's own address"),
    ],
)
def test_flow(connection: Connection, is_stale: bool) -> None:
    assert bool(stale([connection], frontends([DNS, TCP]), [NODE])) is is_stale


def test_a_connection_reads_as_the_conntrack_command_takes_it() -> None:
    assert str(flow("10.96.0.10", "10.244.1.2")) == (
        "-p udp -s 10.244.9.9 -d 10.96.0.10 --sport 4000 --dport 53"
    )
