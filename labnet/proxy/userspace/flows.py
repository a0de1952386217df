"""Which remembered UDP flows lead to a proxy port that is not theirs any more?

A proxy port lives as long as its kube-proxy. A UDP client that keeps its port and keeps
sending is translated as its first packet was, to the port of a process that may be gone,
or not at all where it came before the rules did. Such entries are deleted; the client's
next packet meets the rules anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from labnet.plan.conntrack import Connection
from labnet.plan.conntrack import Endpoint as Address
from labnet.proxy.model import ServicePort

_NOBODY = 0


@dataclass(frozen=True, slots=True)
class Entrances:
    """Where UDP services are reached on a node, and the proxy port behind each."""

    addresses: Mapping[Address, int] = field(default_factory=dict)
    node_ports: Mapping[int, int] = field(default_factory=dict)


def entrances(relayed: Iterable[tuple[ServicePort, int]]) -> Entrances:
    """Return the entrances of the UDP ports among ``relayed`` (with their proxy ports)."""
    addresses: dict[Address, int] = {}
    node_ports: dict[int, int] = {}
    for port, proxy_port in relayed:
        if port.protocol != "UDP":
            continue
        for ip in (port.cluster_ip, *port.external_ips, *port.load_balancer_ips):
            addresses[(ip, port.port)] = proxy_port
        if port.node_port:
            node_ports[port.node_port] = proxy_port
    return Entrances(addresses, node_ports)


def with_removed(now: Entrances, before: Entrances) -> Entrances:
    """Return ``now`` and those of ``before`` that are gone: nobody is behind them."""
    return Entrances(
        {**dict.fromkeys(before.addresses, _NOBODY), **now.addresses},
        {**dict.fromkeys(before.node_ports, _NOBODY), **now.node_ports},
    )


def stale(
    connections: Iterable[Connection], known: Entrances, node: IPv4Address
) -> tuple[Connection, ...]:
    """Return the entries to delete, of all ``connections`` of the node with that address."""
    return tuple(c for c in connections if _is_stale(c, known, node))


def _is_stale(connection: Connection, known: Entrances, node: IPv4Address) -> bool:
    address, port = connection.destination
    behind = known.addresses.get(connection.destination)
    if behind is None and (connection.replier != connection.destination or address == node):
        behind = known.node_ports.get(port)
    return behind is not None and connection.replier[1] != behind
