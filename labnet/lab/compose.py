"""From a scenario to processes: which hosts a lab has, and what runs on each.

This is the composition root's plan and a pure function: a :class:`Lab` goes in, hosts
and component specs come out, in the order in which they start. Which certificate opens
which door, which address is kept for whom, which rule style a node's proxy writes: all
of it is decided here, once, and every component gets just its own part as plain JSON.

Order matters only for speed. Each component waits for what it needs (the API server for
etcd, everybody else for the API server), so a wrong order would cost retries, no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labnet.lab import etcd
from labnet.lab.state import INSIDE
from labnet.sandbox.spec import ComponentSpec
from labnet.sandbox.zygote import HostSpec
from labnet.scenario.model import Lab, Node
from labnet.subnet import file as subnet_file

API_PORT = 6443
KUBELET_PORT = 10250
API_SOCKET = "api"
"""The name of the API server's listener on the host's loopback, kept by PID 1."""

_PKI = INSIDE / "pki"
_ENTRY = "labnet.lab.components.{module}:main"
Config = dict[str, object]

WIRE = "labnet.lab.underlay:wire"
"""What PID 1 runs once, when the hosts are there, to connect them."""

_ETCD_CLIENT = "labnet.store.channel:preload"  # grpcio: 7 MB and 70 ms, for four of them
_POD_PROGRAMS = ("labnet.image.programs.web", "labnet.image.programs.agnhost")
_PRIVATE_TO_HOSTS = ("/run/", "/tmp/", "/var/lib/", "/var/log/")


@dataclass(frozen=True, slots=True)
class Composition:
    """Everything PID 1 is asked to make, in order; etcd is the first component."""

    hosts: tuple[HostSpec, ...]
    underlay: Config  # for ``labnet.lab.underlay:wire``
    components: tuple[ComponentSpec, ...]

    @property
    def preload(self) -> tuple[str, ...]:
        """Return the modules that PID 1 imports once, for all its forks to share."""
        entries = [one.entry.partition(":")[0] for one in self.components if one.entry]
        wire = WIRE.partition(":")[0]
        return tuple(dict.fromkeys([wire, _ETCD_CLIENT, *entries, *_POD_PROGRAMS]))


def composition(lab: Lab, etcd_program: str) -> Composition:
    """Return the hosts and components of ``lab``; ``etcd_program`` is etcd's path."""
    return Composition(
        hosts=_hosts(lab, _to_be_seen(etcd_program)),
        underlay=_underlay(lab),
        components=(
            _etcd(lab, etcd_program),
            _kube_apiserver(lab),
            *(_flanneld(lab, node) for node in _with(lab, "flanneld")),
            *(_kubelet(lab, node) for node in _with(lab, "kubelet")),
            _kube_controller_manager(lab),
            _kube_scheduler(lab),
            *(_kube_proxy(lab, node) for node in _with(lab, "kube-proxy")),
        ),
    )


# -- hosts ------------------------------------------------------------------------------


def _hosts(lab: Lab, keep: tuple[str, ...]) -> tuple[HostSpec, ...]:
    members = {node.name: node.address for node in lab.nodes}
    members |= {client.name: client.address for client in lab.clients}
    neighbours = "".join(f"{address}\t{name}\n" for name, address in members.items())
    nodes = {node.name for node in lab.nodes}
    return tuple(
        HostSpec(
            name,
            node=name in nodes,
            etc_hosts=_etc_hosts(neighbours),
            keep=keep if name == _control_plane(lab).name else (),
        )
        for name in members
    )


def _etc_hosts(neighbours: str) -> str:
    return f"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{neighbours}"


def _to_be_seen(etcd_program: str) -> tuple[str, ...]:
    """Return the directory of etcd where a host would otherwise not see it."""
    return (str(Path(etcd_program).parent),) if etcd_program.startswith(_PRIVATE_TO_HOSTS) else ()


def _underlay(lab: Lab) -> Config:
    nodes = [(node.name, node.address, True) for node in lab.nodes]
    clients = [(client.name, client.address, False) for client in lab.clients]
    return {
        "gateway": f"{lab.gateway}/{lab.underlay.prefixlen}",
        "hosts": [
            {
                "name": name,
                "netns": f"/run/netns/{name}",
                "address": f"{address}/{lab.underlay.prefixlen}",
                "forwards": forwards,
            }
            for name, address, forwards in [*nodes, *clients]
        ],
    }


# -- the control plane ------------------------------------------------------------------


def _etcd(lab: Lab, program: str) -> ComponentSpec:
    host = _control_plane(lab)
    argv = etcd.command_line(
        program,
        name=host.name,
        address=host.address,
        pki=_PKI,
    )
    return ComponentSpec(name="etcd", host=host.name, argv=etcd.before_the_address(argv))


def _kube_apiserver(lab: Lab) -> ComponentSpec:
    host = _control_plane(lab)
    config: Config = {
        **_identity(lab, host, "kube-apiserver"),
        "etcd": _etcd_address(lab),
        **_etcd_identity("etcd-client"),
        "listen": f"{host.address}:{API_PORT}",
        "serving_cert": _crt("kube-apiserver"),
        "serving_key": _key("kube-apiserver"),
        "client_ca": _crt("ca"),
        "tokens": str(_PKI / "tokens.csv"),
        "kubelet_cert": _crt("kube-apiserver-kubelet-client"),
        "kubelet_key": _key("kube-apiserver-kubelet-client"),
        "service_cidr": str(lab.service_cidr),
        "node_port_range": list(lab.node_port_range),
        "service_pins": {name: str(address) for name, address in lab.pins.services.items()},
        "cluster_domain": lab.cluster_domain,
    }
    return _component("kube-apiserver", host, config, sockets=(API_SOCKET,))


def _kube_controller_manager(lab: Lab) -> ComponentSpec:
    host = _control_plane(lab)
    config: Config = {
        **_identity(lab, host, "kube-controller-manager"),
        "node_monitor_grace": lab.control_plane.node_monitor_grace,
        "cluster_domain": lab.cluster_domain,
    }
    return _component("kube-controller-manager", host, config)


def _kube_scheduler(lab: Lab) -> ComponentSpec:
    host = _control_plane(lab)
    pinned = {node.name: str(node.subnet) for node in lab.nodes if node.subnet}
    config: Config = {
        **_identity(lab, host, "kube-scheduler"),
        "pod_pins": {
            owner: [str(address) for address in addresses]
            for owner, addresses in lab.pins.pods.items()
        },
        "pinned_subnets": pinned,
    }
    return _component("kube-scheduler", host, config)


# -- every node -------------------------------------------------------------------------


def _kubelet(lab: Lab, node: Node) -> ComponentSpec:
    certificate = f"kubelet-{node.name}"
    config: Config = {
        **_identity(lab, node, certificate),
        "address": str(node.address),
        "port": KUBELET_PORT,
        "serving_cert": _crt(certificate),
        "serving_key": _key(certificate),
        "labels": dict(node.labels),
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect}
            for taint in node.taints
        ],
        "node_lease": lab.control_plane.node_lease,
        "range_start": str(node.range_start) if node.range_start else None,
        "reserved_addresses": _reserved_addresses(lab),
        "cluster_dns": None,
        "cluster_domain": lab.cluster_domain,
        "subnet_file": str(subnet_file.PATH),
        "pod_cidr": str(lab.pod_cidr),
        "runtime": node.runtime,
    }
    return _component("kubelet", node, config, per_node=True)


def _kube_proxy(lab: Lab, node: Node) -> ComponentSpec:
    config: Config = {
        **_identity(lab, node, "kube-proxy"),
        "address": str(node.address),
        "mode": node.proxy.mode,
        "style": node.proxy.style,
        "pod_cidr": str(lab.pod_cidr),
        "service_cidr": str(lab.service_cidr),
        "node_port_range": list(lab.node_port_range),
    }
    return _component("kube-proxy", node, config, per_node=True)


def _flanneld(lab: Lab, node: Node) -> ComponentSpec:
    others = [other.subnet for other in lab.nodes if other.name != node.name and other.subnet]
    config: Config = {
        "lab": lab.name,
        "node": node.name,
        "etcd": _etcd_address(lab),
        **_etcd_identity("flanneld"),
        "public_ip": str(node.address),
        "interface": "eth0",
        "net_conf": net_conf(lab),
        "subnet": str(node.subnet) if node.subnet else None,
        "reserved_subnets": [str(subnet) for subnet in others],
        "subnet_file": str(subnet_file.PATH),
    }
    return _component("flanneld", node, config, per_node=True)


def net_conf(lab: Lab) -> Config:
    """Return flannel's network configuration, as it stands in etcd.

    Keys are those of flannel's ``pkg/subnet/config.go``; only what the backend in use
    reads is given.
    """
    backend: Config = {"Type": lab.backend.type}
    if lab.backend.type == "vxlan":
        backend |= {"VNI": lab.backend.vni, "Port": lab.backend.port}
        if lab.backend.direct_routing:
            backend["DirectRouting"] = True
    if lab.backend.mtu:
        backend["MTU"] = lab.backend.mtu
    return {"Network": str(lab.pod_cidr), "SubnetLen": lab.subnet_len, "Backend": backend}


# -- what several of them share ---------------------------------------------------------


def _component(
    name: str,
    host: Node,
    config: Config,
    *,
    per_node: bool = False,
    sockets: tuple[str, ...] = (),
) -> ComponentSpec:
    return ComponentSpec(
        name=f"{name}@{host.name}" if per_node else name,
        host=host.name,
        entry=_ENTRY.format(module=name.replace("-", "_")),
        config=config,
        sockets=sockets,
    )


def _identity(lab: Lab, host: Node, certificate: str) -> Config:
    return {
        "lab": lab.name,
        "node": host.name,
        "api": f"https://{_control_plane(lab).address}:{API_PORT}",
        "ca": _crt("ca"),
        "cert": _crt(certificate),
        "key": _key(certificate),
    }


def _etcd_identity(certificate: str) -> Config:
    return {
        "etcd_ca": _crt("etcd-ca"),
        "etcd_cert": _crt(certificate),
        "etcd_key": _key(certificate),
    }


def _etcd_address(lab: Lab) -> str:
    return f"{_control_plane(lab).address}:{etcd.CLIENT_PORT}"


def _reserved_addresses(lab: Lab) -> list[str]:
    return sorted(str(address) for pinned in lab.pins.pods.values() for address in pinned)


def _control_plane(lab: Lab) -> Node:
    return lab.nodes[0]


def _with(lab: Lab, component: str) -> Iterator[Node]:
    return (node for node in lab.nodes if node.components.get(component, True))


def _crt(name: str) -> str:
    return str(_PKI / f"{name}.crt")


def _key(name: str) -> str:
    return str(_PKI / f"{name}.key")
