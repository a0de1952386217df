"""A lab as the scenario file describes it, parsed and checked.

The file's first document (``kind: Lab``) becomes a :class:`Lab`; the documents after
it are plain Kubernetes objects, kept as they came, in order. Everything a default
gives is filled in here: whoever reads a :class:`Lab` decides nothing about defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Literal

Role = Literal["control-plane", "worker"]
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Proxy:
    """How Services are programmed: ``mode`` of kube-proxy, ``style`` of its rules."""

    mode: str = "iptables"
    style: str = "current"  # or "v1.2"


@dataclass(frozen=True, slots=True)
class Backend:
    """flannel's Backend: ``vxlan`` or ``host-gw``, with its options."""

    type: str = "vxlan"
    vni: int = 1
    port: int = 8472
    direct_routing: bool = False
    mtu: int = 0  # 0: from eth0


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Node:
    """One host of the cluster."""

    name: str
    role: Role
    address: IPv4Address
    subnet: IPv4Network | None  # None: flanneld takes the first free one
    range_start: IPv4Address | None  # first address host-local gives to pods
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    runtime: str
    proxy: Proxy
    components: Mapping[str, bool]  # kubelet, kube-proxy, flanneld: on or off


@dataclass(frozen=True, slots=True)
class Client:
    """A host on the underlay that is not part of the cluster."""

    name: str
    address: IPv4Address


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Knobs of the control plane; durations in seconds."""

    node_monitor_grace: float = 40.0
    node_lease: float = 40.0


@dataclass(frozen=True, slots=True)
class Pins:
    """Addresses that are kept for one owner, as ``namespace/name``."""

    services: Mapping[str, IPv4Address] = field(default_factory=dict)
    pods: Mapping[str, tuple[IPv4Address, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lab:
    """One lab: hosts, address plan, and the objects to apply."""

    name: str
    title: str
    nodes: tuple[Node, ...]  # the control plane first
    clients: tuple[Client, ...]
    underlay: IPv4Network
    gateway: IPv4Address  # the underlay bridge itself
    pod_cidr: IPv4Network
    subnet_len: int
    service_cidr: IPv4Network
    node_port_range: tuple[int, int]
    cluster_domain: str
    backend: Backend
    proxy: Proxy
    runtime: str
    control_plane: ControlPlane
    pins: Pins
    objects: tuple[Object, ...]
