"""vxlan: carry pod packets between nodes inside UDP.

Each node has a device ``flannel.1``, a tunnel end point (VTEP). Nothing is learned from
traffic: for every remote lease flanneld writes three entries, and a packet from a pod
here to 10.244.2.7 on node2 meets them in this order:

1. the route ``10.244.2.0/24 via 10.244.2.0 dev flannel.1 onlink``: out by the tunnel,
   next hop "the node of that subnet";
2. the neighbour ``10.244.2.0 lladdr <node2's VTEP MAC>``: what the inner Ethernet
   header says as destination;
3. the forwarding entry ``<node2's VTEP MAC> dst 192.168.50.12``: where the UDP packet
   goes, port 8472, VNI 1.

The outer headers take 50 bytes, so pods get the wire's MTU − 50; with a larger one small
packets pass and large ones vanish. Three entries per node, however many pods there are.
With DirectRouting, nodes on the same wire get a plain route instead. (flannel's history
of this design: the header of its ``pkg/backend/vxlan/vxlan.go``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

from labnet.backend.outside import Outside
from labnet.plan.state import (
    Address,
    Forwarding,
    Link,
    Neighbour,
    NodeState,
    Route,
    Scope,
    Vxlan,
)
from labnet.subnet.lease import Lease

TYPE = "vxlan"
OVERHEAD = 50  # outer Ethernet 14, IP 20, UDP 8, VXLAN 8
PORT = 8472


@dataclass(frozen=True, slots=True)
class Options:
    """The backend's part of flannel's configuration."""

    vni: int = 1
    port: int = PORT
    direct_routing: bool = False
    mtu: int = 0  # of the wire; 0: as the interface says

    @property
    def device(self) -> str:
        """The tunnel's name: ``flannel.`` and the VNI."""
        return f"flannel.{self.vni}"


def parse(options: Mapping[str, Any]) -> Options:
    """Read ``Backend`` of flannel's configuration."""
    return Options(
        vni=int(options.get("VNI", 1)),
        port=int(options.get("Port") or PORT),
        direct_routing=bool(options.get("DirectRouting", False)),
        mtu=int(options.get("MTU") or 0),
    )


def scope(outside: Outside, options: Options) -> Scope:
    """Return what this backend answers for."""
    device = options.device
    return Scope(links=frozenset({device}), routes=frozenset({device, outside.dev}))


def mtu(outside: Outside, options: Options) -> int:
    """Return the MTU of the tunnel, which is the one for pods too."""
    return (options.mtu or outside.mtu) - OVERHEAD


def vtep_mac(public_ip: IPv4Address, vni: int) -> str:
    """Return the tunnel's MAC: always the same for a node, so a restart changes nothing.

    flannel draws it at random and keeps it in a node annotation or the device.
    """
    digest = sha256(f"vtep/{public_ip}/{vni}".encode()).digest()
    return bytes([digest[0] & 0xFC | 0x02, *digest[1:6]]).hex(":")


def desired(own: Lease, leases: Iterable[Lease], outside: Outside, options: Options) -> NodeState:
    """Return tunnel, routes, neighbours and forwarding entries for ``leases``."""
    remote = [lease for lease in leases if lease.subnet != own.subnet and _peer(lease, options)]
    direct = [x for x in remote if options.direct_routing and outside.reaches(x.public_ip)]
    tunnelled = [x for x in remote if x not in direct]
    device = options.device
    return NodeState(
        links=frozenset({_tunnel(own, outside, options)}),
        addresses=frozenset({Address(device, IPv4Interface(own.subnet.network_address))}),
        routes=frozenset(
            {
                *(Route(x.subnet, x.public_ip, outside.dev) for x in direct),
                *(Route(x.subnet, x.subnet.network_address, device, True) for x in tunnelled),
            }
        ),
        neighbours=frozenset(
            Neighbour(device, x.subnet.network_address, x.vtep_mac) for x in tunnelled
        ),
        forwardings=frozenset(Forwarding(device, x.vtep_mac, x.public_ip) for x in tunnelled),
    )


def _peer(lease: Lease, options: Options) -> bool:
    """Only leases of the same kind and network can be reached; flannel skips others too."""
    return lease.backend_type == TYPE and lease.vni == options.vni and bool(lease.vtep_mac)


def _tunnel(own: Lease, outside: Outside, options: Options) -> Link:
    end_point = Vxlan(options.vni, options.port, outside.address.ip, outside.dev)
    return Link(options.device, "vxlan", mtu(outside, options), own.vtep_mac, vxlan=end_point)
