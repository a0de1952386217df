"""host-gw: reach each remote subnet through the node that owns it.

No encapsulation. Every node holds one plain route per remote lease:

    10.244.2.0/24 via 192.168.50.12 dev eth0

so the packet that leaves the node is the pod's own packet, and all nodes must share one
wire (the next hop has to answer ARP). The table grows by one route per node; there is
no forwarding table, no tunnel and no MTU overhead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from labnet.backend.outside import Outside
from labnet.plan.state import NodeState, Route, Scope
from labnet.subnet.lease import Lease

TYPE = "host-gw"


def scope(outside: Outside) -> Scope:
    """Return what this backend answers for: also a tunnel that vxlan left behind."""
    return Scope(links=frozenset({"flannel.1"}), routes=frozenset({outside.dev, "flannel.1"}))


def mtu(outside: Outside, options: Mapping[str, Any]) -> int:
    """Return the MTU for pods: the wire's own."""
    return int(options.get("MTU") or outside.mtu)


def desired(own: Lease, leases: Iterable[Lease], outside: Outside) -> NodeState:
    """Return the routes that the node holding ``own`` needs for ``leases``."""
    return NodeState(
        routes=frozenset(
            Route(lease.subnet, lease.public_ip, outside.dev)
            for lease in leases
            if lease.subnet != own.subnet and lease.backend_type == TYPE
        )
    )
