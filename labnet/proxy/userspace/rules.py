"""The rules that lead a service's packets to its proxy port.

Two ways in need two kinds of rule. A packet that arrives (PREROUTING) is *redirected*: its
destination becomes the address of the interface it came in by, so a pod is answered by
its own bridge's address. A packet of the node itself (OUTPUT) is translated to the node's
address: a redirection would send it to 127.0.0.1, from where the answer would come with
an address that the connection tracker does not expect.

Node ports must stand behind the virtual IPs, because they match every packet to an address
of the node. An *external* IP is taken only from packets that do not come out of a bridge
port (from a pod) and from those to an address the node has: a pod that means the outside
world's 203.0.113.1 gets the outside world.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address
from typing import Literal

from labnet.plan.netfilter import Hook, NetfilterState, Rules, Wanted
from labnet.proxy.model import Portal, ServicePort
from labnet.proxy.rule_text import TO_NODE, comment, to_address, to_node_port

PORTALS = "KUBE-PORTALS-CONTAINER"
HOST_PORTALS = "KUBE-PORTALS-HOST"
NODE_PORTS = "KUBE-NODEPORT-CONTAINER"
HOST_NODE_PORTS = "KUBE-NODEPORT-HOST"
NON_LOCAL = "KUBE-NODEPORT-NON-LOCAL"

CHAINS = frozenset({PORTALS, HOST_PORTALS, NODE_PORTS, HOST_NODE_PORTS, NON_LOCAL})
TRANSPORTS = ("TCP", "UDP")  # what can be relayed

Style = Literal["current", "v1.2"]

_FROM_NO_BRIDGE = "-m physdev ! --physdev-is-in"


def service_name(port: ServicePort, style: Style) -> str:
    """Return ``namespace/name:port``; v1.2 keeps the colon where the port has no name."""
    return f"{port.key}:{port.port_name}" if port.port_name or style == "v1.2" else port.key


def redirections(
    portal: Portal, proxy_port: int, node: IPv4Address, style: Style
) -> tuple[Hook, ...]:
    """Return the rules of one portal whose proxy listens on ``proxy_port``."""
    port = portal.port
    name = service_name(port, style)
    arriving = f"-j REDIRECT --to-ports {proxy_port}"
    leaving = f"-j DNAT --to-destination {node}:{proxy_port}"
    found: list[Hook] = []
    for address in (port.cluster_ip, *port.load_balancer_ips):
        match = to_address(address, port.protocol, port.port, name)
        found.append(Hook("nat", PORTALS, f"{match} {arriving}"))
        found.append(Hook("nat", HOST_PORTALS, f"{match} {leaving}"))
    for address in port.external_ips:
        match = to_address(address, port.protocol, port.port, name)
        found.append(Hook("nat", PORTALS, f"{match} {_FROM_NO_BRIDGE} {arriving}"))
        found.append(Hook("nat", PORTALS, f"{match} {TO_NODE} {arriving}"))
        found.append(Hook("nat", HOST_PORTALS, f"{match} {TO_NODE} {leaving}"))
    if port.node_port:
        match = to_node_port(port.protocol, port.node_port, name)
        found.append(Hook("nat", NODE_PORTS, f"{match} {arriving}"))
        found.append(Hook("nat", HOST_NODE_PORTS, f"{match} {leaving}"))
        if style == "current":
            found.append(_let_in(port, proxy_port, name))
    return tuple(found)


def _let_in(port: ServicePort, proxy_port: int, name: str) -> Hook:
    """Accept what was redirected, for nodes whose INPUT refuses by default."""
    match = to_node_port(port.protocol, proxy_port, name)
    return Hook("filter", NON_LOCAL, f"{match} -m state --state NEW -j ACCEPT")


def wanted(style: Style, lines: Iterable[Hook]) -> Wanted:
    """Return the netfilter for all ``lines``, in the order they are given."""
    tables: dict[str, dict[str, list[str]]] = {
        "nat": {PORTALS: [], HOST_PORTALS: [], NODE_PORTS: [], HOST_NODE_PORTS: []},
        "filter": {NON_LOCAL: []} if style == "current" else {},
    }
    for line in lines:
        tables[line.table][line.chain].append(line.rule)
    return Wanted(
        NetfilterState({table: _frozen(chains) for table, chains in tables.items()}),
        hooks=tuple(_hooks(style)),
        owned=tuple(sorted(CHAINS)),
        shared=CHAINS,
    )


def _frozen(chains: dict[str, list[str]]) -> dict[str, Rules]:
    return {name: tuple(rules) for name, rules in chains.items()}


def _hooks(style: Style) -> Iterator[Hook]:
    portals = comment("handle ClusterIPs; NOTE: this must be before the NodePort rules")
    remark = "handle service NodePorts; NOTE: this must be the last rule in the chain"
    ports = f"{TO_NODE} {comment(remark)}"
    yield Hook("nat", "PREROUTING", f"{portals} -j {PORTALS}")
    yield Hook("nat", "OUTPUT", f"{portals} -j {HOST_PORTALS}")
    yield Hook("nat", "PREROUTING", f"{ports} -j {NODE_PORTS}", last=True)
    yield Hook("nat", "OUTPUT", f"{ports} -j {HOST_NODE_PORTS}", last=True)
    if style == "current":
        flow = comment("Ensure that non-local NodePort traffic can flow")
        yield Hook("filter", "INPUT", f"{flow} -j {NON_LOCAL}")
