"""Which remembered UDP flows go where they no longer should?

The connection tracker repeats the decision of a flow's first packet. A UDP client that
keeps its port and keeps sending thus stays with an endpoint that is gone
(k8s#19029), or, where it began before the service had any, with no translation at all
(k8s#48370). kube-proxy therefore deletes the entries whose answer is expected from
somebody who is not an endpoint now; the next packet is decided anew. TCP needs none of
it: its connection breaks, and the next is a new flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from labnet.plan.conntrack import Connection
from labnet.plan.conntrack import Endpoint as Address
from labnet.proxy.model import Portal


@dataclass(frozen=True, slots=True)
class Frontends:
    """Where UDP services are reached on a node, and who may answer there."""

    addresses: Mapping[Address, frozenset[Address]] = field(default_factory=dict)
    node_ports: Mapping[int, frozenset[Address]] = field(default_factory=dict)


def frontends(portals: Iterable[Portal]) -> Frontends:
    """Return the front ends of the UDP services among ``portals``."""
    addresses: dict[Address, frozenset[Address]] = {}
    node_ports: dict[int, frozenset[Address]] = {}
    for portal in portals:
        port = portal.port
        if port.protocol != "UDP":
            continue
        answers = frozenset((e.address, e.port) for e in (*portal.cluster, *portal.local))
        for ip in (port.cluster_ip, *port.external_ips, *port.load_balancer_ips):
            addresses[(ip, port.port)] = answers
        if port.node_port:
            node_ports[port.node_port] = answers
    return Frontends(addresses, node_ports)


def with_removed(now: Frontends, before: Frontends) -> Frontends:
    """Return ``now`` and those of ``before`` that are gone: nobody may answer there."""
    nobody: frozenset[Address] = frozenset()
    return Frontends(
        {**dict.fromkeys(before.addresses, nobody), **now.addresses},
        {**dict.fromkeys(before.node_ports, nobody), **now.node_ports},
    )


def stale(
    connections: Iterable[Connection], fronts: Frontends, node_addresses: Iterable[IPv4Address]
) -> tuple[Connection, ...]:
    """Return the entries to delete, of all ``connections`` of a node.

    An entry to a node port counts if it went to one of ``node_addresses`` or was
    translated; a flow through the node to some other host's port is none of ours.
    """
    own = frozenset(node_addresses)
    return tuple(c for c in connections if c.replier not in _answers(c, fronts, own))


def _answers(
    connection: Connection, fronts: Frontends, own: frozenset[IPv4Address]
) -> Iterable[Address]:
    found = fronts.addresses.get(connection.destination)
    if found is not None:
        return found
    address, port = connection.destination
    translated = connection.replier != connection.destination
    if port in fronts.node_ports and (translated or address in own or address.is_loopback):
        return fronts.node_ports[port]
    return (connection.replier,)  # not a service's: leave it
