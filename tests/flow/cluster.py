"""One cluster and one table of packets, for the model and for the kernel.

node1 (192.168.50.11) has the pods a and b; r is a pod on another node. ``ROWS`` says for
each packet who answers, or how it is refused, and whether the answerer sees another
source than the one that asked; ``old`` where the v1.2 style differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from labnet.plan.netfilter import NetfilterState, Wanted
from labnet.plan.netfilter_diff import diff
from labnet.plan.netfilter_effect import applied
from labnet.proxy.iptables.planner import Style, rules_for
from labnet.proxy.iptables.rules import RuleConfig
from labnet.proxy.services import portals

NODE = "node1"
A, B, R = "10.244.2.10", "10.244.2.5", "10.244.1.10"
PLACES = {
    "client": "192.168.50.100",
    "stranger": "192.168.50.101",
    "node": "192.168.50.11",
    "loopback": "127.0.0.1",
    "a": A,
    "b": B,
    "r": R,
}
CONFIG = RuleConfig(IPv4Network("10.244.0.0/16"), IPv4Address(PLACES["node"]))
PORT = 8080  # of every endpoint


def service(name: str, ip: str, **spec: Any) -> dict[str, Any]:
    """Return a Service; ``spec`` overrides one TCP port 80."""
    status = spec.pop("status", {})
    spec = {"clusterIP": ip, "ports": [{"port": 80, "protocol": "TCP"}], **spec}
    return {"metadata": {"namespace": "flow", "name": name}, "spec": spec, "status": status}


def endpoints(name: str, *addresses: str, ports: Any = None, **conditions: bool) -> dict[str, Any]:
    """Return the EndpointSlice of a service; on ``r`` runs another node."""
    return {
        "metadata": {
            "namespace": "flow",
            "name": f"{name}-x",
            "labels": {"kubernetes.io/service-name": name},
        },
        "addressType": "IPv4",
        "ports": ports or [{"port": PORT, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": [a],
                "nodeName": "node2" if a == R else NODE,
                "conditions": conditions or {"ready": True},
            }
            for a in addresses
        ],
    }


def node_port(number: int) -> list[dict[str, Any]]:
    return [{"port": 80, "protocol": "TCP", "nodePort": number}]


UDP = [{"port": 53, "protocol": "UDP"}]
TWO = [{"name": "http", "port": 80}, {"name": "admin", "port": 81}]
SERVICES = [
    service("web", "10.96.0.10"),
    service("np", "10.96.0.20", ports=node_port(30080)),
    service("none", "10.96.0.30", ports=node_port(30030), externalIPs=["203.0.113.30"]),
    service("itself", "10.96.0.40"),
    service("inner", "10.96.0.50", internalTrafficPolicy="Local"),
    service("inner-here", "10.96.0.51", internalTrafficPolicy="Local"),
    service("outer", "10.96.0.60", ports=node_port(30060), externalTrafficPolicy="Local"),
    service("far", "10.96.0.70", ports=node_port(30070), externalTrafficPolicy="Local"),
    service(
        "lb",
        "10.96.0.80",
        loadBalancerSourceRanges=["192.168.50.100/32"],
        status={"loadBalancer": {"ingress": [{"ip": "203.0.113.80"}]}},
    ),
    service("ext", "10.96.0.90", externalIPs=["203.0.113.90"]),
    service("dns", "10.96.0.53", ports=UDP),
    service("two", "10.96.0.22", ports=TWO),
    service("leaving", "10.96.0.23"),
    service("sticky", "10.96.0.75", sessionAffinity="ClientIP"),
    service("headless", "None"),
]
SLICES = [
    endpoints("web", A, R),
    endpoints("np", B, R),
    endpoints("itself", A),
    endpoints("inner", R),
    endpoints("inner-here", A, R),
    endpoints("outer", A, R),
    endpoints("far", R),
    endpoints("lb", A),
    endpoints("ext", B),
    endpoints("dns", A, ports=[{"port": PORT, "protocol": "UDP"}]),
    endpoints("two", A, ports=[{"name": "http", "port": PORT}]),
    endpoints("leaving", B, ready=False, serving=True, terminating=True),
    endpoints("sticky", A, R),
    endpoints("headless", A),
]


@dataclass(frozen=True, slots=True)
class Row:
    """A packet from ``source`` and what becomes of it.

    ``to`` names pods, or is REJECT, DROP, or ``-`` for "no rule cares".
    """

    source: str
    destination: str  # address:port, or address:port/udp
    to: str
    masqueraded: bool = False
    old: str = ""  # v1.2: other `to`, "" the same
    old_masqueraded: bool | None = None

    def expected(self, style: str) -> tuple[str, bool]:
        """Return (``to``, masqueraded) for a rule style."""
        if style == "current":
            return self.to, self.masqueraded
        other = self.old_masqueraded
        return self.old or self.to, self.masqueraded if other is None else other

    def __str__(self) -> str:
        return f"{self.source} to {self.destination}"


ROWS = (
    # A cluster IP: from a pod as it is, from outside the pod network masqueraded.
    Row("a", "10.96.0.20:80", "b r"),
    Row("b", "10.96.0.10:80", "a r"),
    Row("node", "10.96.0.10:80", "a r", True, old_masqueraded=False),
    Row("node", "10.96.0.40:80", "a", True, old_masqueraded=False),
    Row("client", "10.96.0.10:80", "a r", True, old_masqueraded=False),
    Row("a", "10.96.0.53:53/udp", "a", True),
    Row("b", "10.96.0.53:53/udp", "a"),
    Row("b", "10.96.0.53:53", "-"),
    Row("b", "10.96.0.10:81", "-"),
    Row("b", "10.96.0.22:80", "a"),
    # A pod that reaches itself must see another source.
    Row("a", "10.96.0.40:80", "a", True),
    # Node ports: any address of the node, masqueraded.
    Row("client", "192.168.50.11:30080", "b r", True),
    Row("client", "10.244.2.1:30080", "b r", True),
    Row("node", "192.168.50.11:30080", "b r", True),
    Row("loopback", "127.0.0.1:30080", "b r", True),
    Row("a", "192.168.50.11:30080", "b r", True),
    Row("client", "192.168.50.11:30081", "-"),
    # Without endpoints: refused at once, whichever address.
    Row("a", "10.96.0.30:80", "REJECT"),
    Row("node", "10.96.0.30:80", "REJECT"),
    Row("client", "192.168.50.11:30030", "REJECT"),
    Row("node", "192.168.50.11:30030", "REJECT"),
    Row("loopback", "127.0.0.1:30030", "REJECT"),
    Row("b", "192.168.50.11:30030", "REJECT"),
    # The node's own packets to an external address are not looked at, in Kubernetes too.
    Row("node", "203.0.113.30:80", "-", old="REJECT"),
    Row("a", "203.0.113.30:80", "REJECT"),
    Row("a", "10.96.0.22:81", "REJECT"),
    # internalTrafficPolicy Local; v1.2 knows no policies.
    Row("a", "10.96.0.50:80", "DROP", old="r"),
    Row("node", "10.96.0.50:80", "DROP", old="r"),
    Row("b", "10.96.0.51:80", "a", old="a r"),
    # externalTrafficPolicy Local: the client's address is kept.
    Row("client", "192.168.50.11:30060", "a", False, "a r", True),
    Row("node", "192.168.50.11:30060", "a r", True),
    Row("b", "192.168.50.11:30060", "a r", False, old_masqueraded=True),
    Row("b", "10.96.0.60:80", "a r"),
    Row("client", "192.168.50.11:30070", "DROP", False, "r", True),
    Row("b", "10.96.0.70:80", "r"),
    # A load balancer's address and who may use it.
    Row("client", "203.0.113.80:80", "a", True),
    Row("stranger", "203.0.113.80:80", "DROP", False, "a", True),
    Row("b", "10.96.0.80:80", "a"),
    # externalIPs.
    Row("client", "203.0.113.90:80", "b", True),
    Row("a", "203.0.113.90:80", "b", True),
    # The last endpoint is about to end and still serves.
    Row("a", "10.96.0.23:80", "b"),
    # What is no service's goes its way.
    Row("a", "10.244.2.5:8080", "-"),
    Row("b", "192.168.50.100:80", "-"),
)


def rules(style: Style, slices: Any = SLICES) -> Wanted:
    """Return what kube-proxy wants on node1."""
    return rules_for(style, portals(SERVICES, slices, NODE), CONFIG)


def state(style: Style) -> NetfilterState:
    """Return node1's whole netfilter."""
    empty = NetfilterState()
    return applied(empty, diff(rules(style), empty))
