"""From Service and EndpointSlice objects to portals.

A Service without a cluster IP (headless, or ExternalName) has no portal: DNS answers for
it and nothing in the kernel does. An EndpointSlice carries, per endpoint, three
conditions that are true together in life's normal course: *ready*, *serving* (ready, but
for a pod that ends), *terminating*. Traffic goes to ready endpoints; only where a
service has none of them do the serving ones that terminate get it (KEP-1669).

Every function here is pure. Objects are the API's JSON, unknown fields ignored; what
cannot be used (an IPv6 address, a port without number) is left out, as kube-proxy does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from labnet.proxy.model import Endpoint, Portal, ServicePort

Object = Mapping[str, Any]

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name"
_AFFINITY_DEFAULT = 10800  # seconds: three hours


@dataclass(frozen=True, slots=True)
class SliceEndpoint:
    """One endpoint of a slice, for one of its ports."""

    endpoint: Endpoint
    node: str
    ready: bool
    serving: bool
    terminating: bool


def service_ports(service: Object) -> tuple[ServicePort, ...]:
    """Return the ports of ``service`` that a proxy has to do with; () for a headless one."""
    spec = service.get("spec", {})
    metadata = service["metadata"]
    address = _ipv4(spec.get("clusterIP", ""))
    if spec.get("type") == "ExternalName" or address is None:
        return ()
    if PROXY_NAME_LABEL in (metadata.get("labels") or {}):
        return ()  # somebody else's proxy looks after it
    common = {"cluster_ip": address, **_exposure(service), **_policies(spec)}
    return tuple(
        ServicePort(
            namespace=metadata.get("namespace", "default"),
            name=metadata["name"],
            port_name=port.get("name") or "",
            protocol=port.get("protocol") or "TCP",
            port=port["port"],
            node_port=port.get("nodePort") or 0,
            **common,
        )
        for port in spec.get("ports") or ()
    )


def slice_endpoints(endpoint_slice: Object) -> dict[tuple[str, str], tuple[SliceEndpoint, ...]]:
    """Return the endpoints of a slice by (port name, protocol)."""
    found: dict[tuple[str, str], tuple[SliceEndpoint, ...]] = {}
    if endpoint_slice.get("addressType", "IPv4") != "IPv4":
        return found
    for port in endpoint_slice.get("ports") or ():
        if not port.get("port"):
            continue
        key = (port.get("name") or "", port.get("protocol") or "TCP")
        found[key] = tuple(_slice_endpoints(endpoint_slice, port["port"]))
    return found


def slice_owner(endpoint_slice: Object) -> str:
    """Return the ``namespace/name`` of the Service a slice belongs to, "" if to none."""
    metadata = endpoint_slice["metadata"]
    name = (metadata.get("labels") or {}).get(SERVICE_NAME_LABEL, "")
    return f"{metadata.get('namespace', 'default')}/{name}" if name else ""


def portal(port: ServicePort, endpoints: Iterable[SliceEndpoint], node: str) -> Portal:
    """Return ``port`` with the endpoints that ``node`` may use."""
    usable = tuple(endpoints)
    here = tuple(e for e in usable if e.node == node)
    return Portal(
        port,
        cluster=_serving(usable),
        local=_serving(here) if port.uses_local else (),
        ready_here=len({e.endpoint for e in here if e.ready}),
    )


def portals(services: Iterable[Object], slices: Iterable[Object], node: str) -> tuple[Portal, ...]:
    """Return every portal that ``node`` has to offer, sorted by name."""
    by_owner: dict[str, list[Object]] = {}
    for endpoint_slice in slices:
        by_owner.setdefault(slice_owner(endpoint_slice), []).append(endpoint_slice)
    found: list[Portal] = []
    for service in services:
        metadata = service["metadata"]
        owner = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
        found += service_portals(service, by_owner.get(owner, ()), node)
    return tuple(sorted(found, key=portal_order))


def service_portals(service: Object, slices: Iterable[Object], node: str) -> tuple[Portal, ...]:
    """Return the portals of one Service, given the slices that are its own."""
    ports = service_ports(service)
    if not ports:
        return ()
    by_port = [slice_endpoints(s) for s in slices]
    return tuple(
        portal(p, (e for s in by_port for e in s.get((p.port_name, p.protocol), ())), node)
        for p in ports
    )


def portal_order(portal: Portal) -> tuple[str, str, str, str]:
    """Sort key: by namespace and name, so that rules keep their place."""
    port = portal.port
    return (port.namespace, port.name, port.port_name, port.protocol)


def _serving(endpoints: Iterable[SliceEndpoint]) -> tuple[Endpoint, ...]:
    ready = {e.endpoint for e in endpoints if e.ready}
    chosen = ready or {e.endpoint for e in endpoints if e.serving and e.terminating}
    return tuple(sorted(chosen))


def _slice_endpoints(endpoint_slice: Object, port: int) -> Iterable[SliceEndpoint]:
    for endpoint in endpoint_slice.get("endpoints") or ():
        conditions = endpoint.get("conditions") or {}
        # An absent condition means yes for ready, and "as ready" for serving.
        ready = conditions.get("ready") is not False
        serving = conditions.get("serving")
        address = _ipv4(next(iter(endpoint.get("addresses") or ()), ""))
        if address is not None:
            yield SliceEndpoint(
                Endpoint(address, port),
                node=endpoint.get("nodeName") or "",
                ready=ready,
                serving=ready if serving is None else bool(serving),
                terminating=bool(conditions.get("terminating")),
            )


def _exposure(service: Object) -> dict[str, Any]:
    spec = service.get("spec", {})
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return {
        "external_ips": _addresses(spec.get("externalIPs") or ()),
        "load_balancer_ips": _addresses(
            i.get("ip", "") for i in ingress if i.get("ipMode", "VIP") == "VIP"
        ),
        "source_ranges": _source_ranges(spec.get("loadBalancerSourceRanges") or ()),
    }


def _source_ranges(texts: Iterable[str]) -> tuple[IPv4Network, ...]:
    """Return the ranges; () where one of them is everybody, as that is no limit."""
    ranges = tuple(IPv4Network(t.strip(), strict=False) for t in texts if ":" not in t)
    return () if any(r.prefixlen == 0 for r in ranges) else ranges


def _policies(spec: Object) -> dict[str, Any]:
    affinity = 0
    if spec.get("sessionAffinity") == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        affinity = config.get("timeoutSeconds") or _AFFINITY_DEFAULT
    return {
        "affinity_seconds": affinity,
        "internal_local": spec.get("internalTrafficPolicy") == "Local",
        "external_local": spec.get("externalTrafficPolicy") == "Local",
        "health_check_port": spec.get("healthCheckNodePort") or 0,
    }


def _addresses(texts: Iterable[str]) -> tuple[IPv4Address, ...]:
    return tuple(address for text in texts if (address := _ipv4(text)) is not None)


def _ipv4(text: str) -> IPv4Address | None:
    try:
        return IPv4Address(text)
    except ValueError:  # "", None (headless), IPv6, a host name
        return None
