"""The bridge plugin: one switch per node, one cable per pod.

``cni0`` is a Linux bridge with the first address of the node's subnet, which is every
pod's gateway. A packet to a pod on the same node is switched (and, with br_netfilter,
still walks through netfilter); a packet to anywhere else is routed by the node. Ports
are in hairpin mode: without it a pod that calls its own Service never gets its packet
back, because a bridge does not send a frame out of the port it came in by.

MAC addresses follow from IP addresses (0a:58 and the four bytes, as the plugin itself
once did), so when a new pod takes over an address, ARP caches that still know it stay
right.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from labnet import naming
from labnet.plan.state import Address, Cable, Link, NodeState, Scope

BRIDGE = "cni0"
INTERFACE = "eth0"  # the pod's end
SCOPE = Scope(links=frozenset({BRIDGE}))


def pod_mac(address: IPv4Address) -> str:
    """Return the MAC of the interface that has ``address``."""
    return "0a:58:" + address.packed.hex(":")


def port_mac(address: IPv4Address) -> str:
    """Return the MAC of the bridge port whose far end has ``address``."""
    return "0a:59:" + address.packed.hex(":")


def gateway(subnet: IPv4Network) -> IPv4Interface:
    """Return the bridge's own address in ``subnet``."""
    return IPv4Interface((subnet.network_address + 1, subnet.prefixlen))


def desired(subnet: IPv4Network, mtu: int) -> NodeState:
    """Return the bridge that the pods of ``subnet`` hang on."""
    own = gateway(subnet)
    return NodeState(
        links=frozenset({Link(BRIDGE, "bridge", mtu, pod_mac(own.ip))}),
        addresses=frozenset({Address(BRIDGE, own)}),
    )


def cable(sandbox: str, address: IPv4Address, subnet: IPv4Network, mtu: int) -> Cable:
    """Return the cable of the pod ``sandbox`` with ``address``."""
    return Cable(
        port=naming.host_veth(sandbox),
        bridge=BRIDGE,
        interface=INTERFACE,
        address=IPv4Interface((address, subnet.prefixlen)),
        gateway=gateway(subnet).ip,
        mac=pod_mac(address),
        port_mac=port_mac(address),
        mtu=mtu,
        hairpin=True,
    )
