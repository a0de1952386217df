"""The underlay: the wire that every host of a lab hangs on.

A bridge in the network namespace of the lab's PID 1, with the gateway's address, and
one cable per host: ``ul-node1`` on the bridge, ``eth0`` in the host. It stands for the
machine room's switch and router. It forwards nothing, so a packet for an address nobody
has ends here; still every host has a default route to it, because without one a
connection to a virtual IP fails before netfilter sees it.

A namespace starts with a copy of the machine's own IPv4 settings, so each host sets
what Kubernetes relies on before its interfaces exist: routing between pods and wire,
no reverse-path filter (it would drop what a Service sends back another way), bridged
traffic through netfilter. The wire itself keeps netfilter off its bridge.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

from labnet import naming
from labnet.kernel.linux import LinuxKernel, sysctl_path
from labnet.kernel.netns import inside, own_netns
from labnet.plan.diff import diff
from labnet.plan.ops import Attach, Plan, SetLink, SetSysctl
from labnet.plan.state import Address, Cable, Link, NodeState, Scope, Sysctl

BRIDGE = "underlay"
INTERFACE = "eth0"
MTU = 1500
SCOPE = Scope(links=frozenset({BRIDGE}))
BRIDGED_TRAFFIC = "net.bridge.bridge-nf-call-iptables"
ALL_HOSTS = (
    Sysctl("net.ipv4.conf.all.rp_filter", "0"),
    Sysctl("net.ipv4.conf.default.rp_filter", "0"),
)


@dataclass(frozen=True, slots=True)
class Host:
    """One host to be wired: a node of the cluster, or a client outside it."""

    name: str
    netns: str  # path
    address: IPv4Address
    forwards: bool = True  # routes between its interfaces, as a node does


@dataclass(frozen=True, slots=True)
class Config:
    """The whole wire."""

    gateway: IPv4Interface
    hosts: tuple[Host, ...]
    mtu: int = MTU


def parse(config: Mapping[str, Any]) -> Config:
    """Return the config of the one-shot; a host's address may carry its prefix."""
    hosts = (
        Host(h["name"], h["netns"], IPv4Interface(h["address"]).ip, bool(h.get("forwards", True)))
        for h in config["hosts"]
    )
    gateway = IPv4Interface(config["gateway"])
    return Config(gateway, tuple(hosts), int(config.get("mtu", MTU)))


def mac(address: IPv4Address) -> str:
    """Return the MAC of the interface with ``address``: locally administered."""
    return "02:00:" + address.packed.hex(":")


def bridge(config: Config) -> NodeState:
    """Return the switch with the gateway's address."""
    own = config.gateway
    return NodeState(
        links=frozenset({Link(BRIDGE, "bridge", config.mtu, mac(own.ip))}),
        addresses=frozenset({Address(BRIDGE, own)}),
    )


def cable(config: Config, host: Host) -> Cable:
    """Return the cable of ``host``."""
    return Cable(
        port=naming.underlay_port(host.name),
        bridge=BRIDGE,
        interface=INTERFACE,
        address=IPv4Interface((host.address, config.gateway.network.prefixlen)),
        gateway=config.gateway.ip,
        mac=mac(host.address),
        port_mac="02:01:" + host.address.packed.hex(":"),
        mtu=config.mtu,
    )


def settings(host: Host) -> Plan:
    """Return the kernel settings of ``host``, to be made before it has interfaces."""
    wanted = [*ALL_HOSTS, Sysctl("net.ipv4.ip_forward", str(int(host.forwards)))]
    if host.forwards:
        wanted.append(Sysctl(BRIDGED_TRAFFIC, "1"))
    return tuple(SetSysctl(s, "the machine's own value is inherited otherwise") for s in wanted)


def switch_settings(has_bridge_netfilter: bool) -> Plan:
    """Return the settings and the loopback of the wire's own namespace."""
    wanted = [*ALL_HOSTS, Sysctl("net.ipv4.ip_forward", "0")]
    if has_bridge_netfilter:
        wanted.append(Sysctl(BRIDGED_TRAFFIC, "0"))
    loopback = Link("lo", "", 65536)
    return (
        *(SetSysctl(s, "the wire only switches") for s in wanted),
        SetLink(Link("lo", "", 65536, up=False), loopback, "a namespace begins with it down"),
    )


def wire(config: dict[str, Any]) -> dict[str, Any]:
    """Build the underlay in the calling process's namespace; return what was made.

    ``config``: {"gateway": "192.168.50.1/24", "hosts": [{"name", "netns" (a path),
    "address", "forwards" (default true)}]}. Raises ``OpFailed``, ``Unsupported`` where
    br_netfilter is missing, ``OSError`` where a namespace's path is.
    """
    wanted = parse(config)
    with LinuxKernel(BRIDGE) as kernel:
        kernel.apply_all(switch_settings(sysctl_path(BRIDGED_TRAFFIC).exists()))
        kernel.apply_all(diff(bridge(wanted), kernel.observe(SCOPE)))
        made = {host.name: _attach(kernel, wanted, host) for host in wanted.hosts}
    return {"bridge": BRIDGE, "hosts": made}


def _attach(kernel: LinuxKernel, config: Config, host: Host) -> dict[str, str]:
    lead = cable(config, host)
    netns = os.open(host.netns, os.O_RDONLY | os.O_CLOEXEC)
    home = own_netns()
    try:
        with inside(netns, home), LinuxKernel(host.name) as there:
            there.apply_all(settings(host))
        kernel.attach(Attach(lead, f"{host.name} is a host of this lab"), netns)
    finally:
        os.close(home)
        os.close(netns)
    return {"port": lead.port, "address": str(lead.address), "mac": lead.mac}
