"""From a checked document to a Lab: defaults filled in, addresses given out.

Everything that the file leaves open is decided here and nowhere else: names of counted
nodes, addresses on the underlay (control plane .10, workers from .11, clients from
.100, or the lowest free ones where the network is smaller), CIDRs as kubeadm has them.
What cannot be decided soundly is left to :mod:`labnet.scenario.rules`, which looks at
the finished Lab.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from labnet.scenario.model import (
    Backend,
    Client,
    ControlPlane,
    Lab,
    Node,
    Object,
    Pins,
    Proxy,
    Role,
    Taint,
)

CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
_FIRST = {"control-plane": 10, "worker": 11, "client": 100}


def lab(document: Mapping[str, Any], objects: tuple[Object, ...]) -> Lab:
    """Return the Lab that ``document`` (it has the schema's shape) describes."""
    spec = document.get("spec") or {}
    metadata = document["metadata"]
    underlay = IPv4Network(spec.get("underlay", "192.168.50.0/24"))
    named = _node_documents(spec.get("nodes", 2))
    clients = spec.get("clients", [])
    addresses = _Addresses(underlay, [*named, *clients])
    proxy = _proxy(spec.get("proxy", {}), Proxy())
    runtime = spec.get("runtime", "process")
    return Lab(
        name=metadata["name"],
        title=metadata.get("title", ""),
        nodes=tuple(_node(one, addresses, proxy, runtime) for one in named),
        clients=tuple(Client(one["name"], addresses.of(one, "client")) for one in clients),
        underlay=underlay,
        gateway=addresses.gateway,
        pod_cidr=IPv4Network(spec.get("podCIDR", "10.244.0.0/16")),
        subnet_len=spec.get("subnetLen", 24),
        service_cidr=IPv4Network(spec.get("serviceCIDR", "10.96.0.0/12")),
        node_port_range=_port_range(spec.get("nodePortRange", "30000-32767")),
        cluster_domain=spec.get("clusterDomain", "cluster.local"),
        backend=_backend(spec.get("backend", {})),
        proxy=proxy,
        runtime=runtime,
        control_plane=_control_plane(spec.get("controlPlane", {})),
        pins=_pins(spec.get("pins", {})),
        objects=objects,
    )


def _node_documents(nodes: int | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one document per node, the control plane first, adding what is implied."""
    named = [{"name": f"node{n + 1}"} for n in range(nodes)] if isinstance(nodes, int) else nodes
    first = [one for one in named if one.get("role") == "control-plane"]
    if not first:
        first = [{"name": "control-plane", "role": "control-plane"}]
    return first + [one for one in named if one.get("role") != "control-plane"]


class _Addresses:
    """Gives underlay addresses to hosts that name none; never one that is named."""

    def __init__(self, underlay: IPv4Network, hosts: list[dict[str, Any]]) -> None:
        self._underlay = underlay
        self._taken = {IPv4Address(host["address"]) for host in hosts if "address" in host}
        self.gateway = underlay[min(1, underlay.num_addresses - 1)]
        self._taken.add(self.gateway)

    def of(self, host: Mapping[str, Any], kind: str) -> IPv4Address:
        """Return the address of ``host``: its own, else the next free one of its kind."""
        if "address" in host:
            return IPv4Address(host["address"])
        found = next(self._free(_FIRST[kind]), None) or next(self._free(1), None)
        address = found or self._underlay.broadcast_address  # full: the rules will say so
        self._taken.add(address)
        return address

    def _free(self, offset: int) -> Iterator[IPv4Address]:
        last = self._underlay.num_addresses - 1
        for step in range(offset, last):
            if (candidate := self._underlay[step]) not in self._taken:
                yield candidate


def _node(one: Mapping[str, Any], addresses: _Addresses, proxy: Proxy, runtime: str) -> Node:
    role: Role = one.get("role", "worker")
    return Node(
        name=one["name"],
        role=role,
        address=addresses.of(one, role),
        subnet=IPv4Network(one["subnet"]) if "subnet" in one else None,
        range_start=IPv4Address(one["rangeStart"]) if "rangeStart" in one else None,
        labels=_labels(one, role),
        taints=_taints(one, role),
        runtime=one.get("runtime", runtime),
        proxy=_proxy(one.get("proxy", {}), proxy),
        components={
            name: one.get("components", {}).get(name, True) not in (False, "off")
            for name in ("kubelet", "kube-proxy", "flanneld")
        },
    )


def _labels(one: Mapping[str, Any], role: Role) -> dict[str, str]:
    standard = {
        "kubernetes.io/hostname": one["name"],
        "kubernetes.io/os": "linux",
        **({CONTROL_PLANE_LABEL: ""} if role == "control-plane" else {}),
    }
    return {**standard, **one.get("labels", {})}


def _taints(one: Mapping[str, Any], role: Role) -> tuple[Taint, ...]:
    if "taints" in one:
        return tuple(Taint(t["key"], t.get("value", ""), t["effect"]) for t in one["taints"])
    return (Taint(CONTROL_PLANE_LABEL, "", "NoSchedule"),) if role == "control-plane" else ()


def _proxy(one: Mapping[str, Any], default: Proxy) -> Proxy:
    return Proxy(one.get("mode", default.mode), one.get("style", default.style))


def _backend(one: Mapping[str, Any]) -> Backend:
    return Backend(
        type=one.get("type", "vxlan"),
        vni=one.get("vni", 1),
        port=one.get("port", 8472),
        direct_routing=one.get("directRouting", False),
        mtu=one.get("mtu", 0),
    )


def _control_plane(one: Mapping[str, Any]) -> ControlPlane:
    return ControlPlane(
        node_monitor_grace=float(one.get("nodeMonitorGrace", 40.0)),
        node_lease=float(one.get("nodeLease", 40.0)),
    )


def _pins(one: Mapping[str, Any]) -> Pins:
    return Pins(
        services={k: IPv4Address(v) for k, v in one.get("services", {}).items()},
        pods={k: tuple(map(IPv4Address, v)) for k, v in one.get("pods", {}).items()},
    )


def _port_range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high)
