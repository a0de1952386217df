"""The columns of Services, endpoints, Ingresses, network policies and Nodes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from labnet.api.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    at,
    joined,
    labels_text,
    path,
    selector_text,
)
from labnet.api.meta import Object

_SHOWN = 3  # endpoints before " + 2 more..."
_ROLE = "node-role.kubernetes.io/"


def _cluster_ip(service: Object, _: datetime) -> str:
    spec = service.get("spec") or {}
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or NONE]
    return str(addresses[0])


def _external_ip(service: Object, _: datetime) -> str:
    spec = service.get("spec") or {}
    own = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return joined(own)
        case "LoadBalancer":
            ingress = at(service, "status", "loadBalancer", "ingress") or ()
            given = [i.get("ip") or i.get("hostname") or "" for i in ingress]
            return ",".join(filter(None, given + own)) or "<pending>"
        case "ExternalName":
            return spec.get("externalName") or NONE
    return "<unknown>"


def _ports(service: Object, _: datetime) -> str:
    texts = []
    for port in at(service, "spec", "ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return joined(texts)


def _service_selector(service: Object, _: datetime) -> str:
    return labels_text(at(service, "spec", "selector"))


SERVICE = (
    NAME,
    Column("Type", path("spec", "type"), description="How the Service is reached."),
    Column("Cluster-IP", _cluster_ip, description="The virtual IP."),
    Column("External-IP", _external_ip),
    Column("Port(s)", _ports, description="Port, node port, protocol."),
    AGE,
    Column("Selector", _service_selector, priority=1, description="Labels of its pods."),
)


def _some(texts: Sequence[str], none: str) -> str:
    if not texts:
        return none
    more = f" + {len(texts) - _SHOWN} more..." if len(texts) > _SHOWN else ""
    return ",".join(texts[:_SHOWN]) + more


def _host_port(address: str, port: Any) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _endpoints(endpoints: Object, _: datetime) -> str:
    subsets = endpoints.get("subsets") or ()
    texts: list[str] = []
    for subset in subsets:
        addresses = [a.get("ip", "") for a in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        texts += [_host_port(a, p.get("port")) for p in ports for a in addresses]
        if not ports:
            texts += addresses
    return _some(texts, "" if subsets else NONE)


ENDPOINTS = (
    NAME,
    Column("Endpoints", _endpoints, description="Addresses and ports of ready pods."),
    AGE,
)


def _slice_ports(slice_: Object, _: datetime) -> str:
    ports = [str(p["port"]) if p.get("port") else "*" for p in slice_.get("ports") or ()]
    return _some(ports, "<unset>")


def _slice_endpoints(slice_: Object, _: datetime) -> str:
    endpoints = slice_.get("endpoints") or ()
    return _some([a for e in endpoints for a in e.get("addresses") or ()], "<unset>")


ENDPOINT_SLICE = (
    NAME,
    Column("AddressType", path("addressType")),
    Column("Ports", _slice_ports),
    Column("Endpoints", _slice_endpoints),
    AGE,
)


def _hosts(ingress: Object, _: datetime) -> str:
    hosts = [r.get("host") for r in at(ingress, "spec", "rules") or ()]
    return _some([h for h in hosts if h], "*")


def _ingress_address(ingress: Object, _: datetime) -> str:
    given = at(ingress, "status", "loadBalancer", "ingress") or ()
    return ",".join(i.get("ip") or i.get("hostname") or "" for i in given)


def _ingress_ports(ingress: Object, _: datetime) -> str:
    return "80, 443" if at(ingress, "spec", "tls") else "80"


INGRESS = (
    NAME,
    Column("Class", path("spec", "ingressClassName", default=NONE)),
    Column("Hosts", _hosts),
    Column("Address", _ingress_address),
    Column("Ports", _ingress_ports),
    AGE,
)


def _pod_selector(policy: Object, _: datetime) -> str:
    return selector_text(at(policy, "spec", "podSelector"))


NETWORK_POLICY = (NAME, Column("Pod-Selector", _pod_selector), AGE)


def _node_status(node: Object, _: datetime) -> str:
    words = []
    for condition in at(node, "status", "conditions") or ():
        if condition.get("type") == "Ready":
            words.append("Ready" if condition.get("status") == "True" else "NotReady")
    if not words:
        words.append("Unknown")
    if at(node, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Object, _: datetime) -> str:
    labels = at(node, "metadata", "labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} - {""}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return joined(sorted(roles))


def _node_address(node: Object, kind: str) -> str:
    for address in at(node, "status", "addresses") or ():
        if address.get("type") == kind:
            return str(address.get("address"))
    return NONE


def _node_info(name: str) -> Column:
    titles = {
        "osImage": "OS-Image",
        "kernelVersion": "Kernel-Version",
        "containerRuntimeVersion": "Container-Runtime",
    }
    cell = path("status", "nodeInfo", name, default="<unknown>")
    return Column(titles[name], cell, priority=1)


NODE = (
    NAME,
    Column("Status", _node_status, description="Ready, and whether pods may come."),
    Column("Roles", _roles),
    AGE,
    Column("Version", path("status", "nodeInfo", "kubeletVersion"), description="The kubelet's."),
    Column("Internal-IP", lambda node, _: _node_address(node, "InternalIP"), priority=1),
    Column("External-IP", lambda node, _: _node_address(node, "ExternalIP"), priority=1),
    _node_info("osImage"),
    _node_info("kernelVersion"),
    _node_info("containerRuntimeVersion"),
)
