"""What is wrong with a Service, with Endpoints, with an EndpointSlice.

Cluster IPs and node ports may be absent (they are allocated afterwards); whether a given
one is in range and free only the allocator can say.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from labnet.api import field, names
from labnet.api.meta import Object
from labnet.api.status import Cause

PROTOCOLS = ("TCP", "UDP", "SCTP")
_TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
_POLICIES = ("Cluster", "Local")
_IP_RULE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_DAY = 86400


def service(obj: Object) -> list[Cause]:
    """Return what is wrong with a Service."""
    spec = obj.get("spec") or {}
    found = field.one_of("spec.type", spec.get("type"), _TYPES)
    found += field.one_of("spec.sessionAffinity", spec.get("sessionAffinity"), ("None", "ClientIP"))
    found += _affinity(spec) + _traffic(spec) + _cluster_ip(spec) + _ports(spec)
    for key, value in (spec.get("selector") or {}).items():
        found += names.problems("spec.selector", key, names.qualified(key))
        found += names.problems("spec.selector", value, names.label_value(value))
    for n, address in enumerate(spec.get("externalIPs") or ()):
        found += _ip(f"spec.externalIPs[{n}]", address)
    if spec.get("type") == "ExternalName":
        found += _external_name(spec)
    return found


def _affinity(spec: Object) -> list[Cause]:
    config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    seconds = config.get("timeoutSeconds")
    if seconds is None or 0 < seconds <= _DAY:
        return []
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    return [field.invalid(path, seconds, f"must be greater than 0 and less than {_DAY}")]


def _traffic(spec: Object) -> list[Cause]:
    found: list[Cause] = []
    for name in ("externalTrafficPolicy", "internalTrafficPolicy"):
        if name in spec:
            found += field.one_of(f"spec.{name}", spec[name], _POLICIES)
    if (
        "externalTrafficPolicy" in spec
        and spec.get("type") == "ClusterIP"
        and not spec.get("externalIPs")
    ):
        rule = "may only be set for externally-accessible services"
        found.append(
            field.invalid("spec.externalTrafficPolicy", spec["externalTrafficPolicy"], rule)
        )
    return found


def _cluster_ip(spec: Object) -> list[Cause]:
    addresses = spec.get("clusterIPs") or ()
    if spec.get("type") == "ExternalName":
        rule = "may not be set when `type` is 'ExternalName'"
        return [field.forbidden("spec.clusterIPs", rule)] if addresses else []
    found: list[Cause] = []
    for n, address in enumerate(addresses):
        if address != "None":
            found += _ip(f"spec.clusterIPs[{n}]", address)
    if "None" in addresses and spec.get("type") in ("NodePort", "LoadBalancer"):
        rule = f"may not be set to 'None' for {spec['type']} services"
        found.append(field.invalid("spec.clusterIPs[0]", "None", rule))
    if addresses and spec.get("clusterIP") != addresses[0]:
        rule = "first value must match `clusterIP`"
        found.append(field.invalid("spec.clusterIPs", list(addresses), rule))
    return found


def _ip(path: str, address: Any) -> list[Cause]:
    try:
        ip_address(address)
    except ValueError:
        return [field.invalid(path, address, _IP_RULE)]
    return []


def _external_name(spec: Object) -> list[Cause]:
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        return [field.required("spec.externalName")]
    return names.problems("spec.externalName", name, names.subdomain(name))


def _ports(spec: Object) -> list[Cause]:
    ports = spec.get("ports") or []
    headless = spec.get("clusterIP") == "None" or spec.get("type") == "ExternalName"
    if not ports:
        return [] if headless else [field.required("spec.ports")]
    found: list[Cause] = []
    for n, port in enumerate(ports):
        found += _port(f"spec.ports[{n}]", port, named=len(ports) > 1)
        if port.get("nodePort") and spec.get("type") in ("ClusterIP", "ExternalName"):
            rule = f"may not be used when `type` is '{spec['type']}'"
            found.append(field.forbidden(f"spec.ports[{n}].nodePort", rule))
    return found + _twice(ports)


def _port(path: str, port: Object, *, named: bool) -> list[Cause]:
    found: list[Cause] = []
    name = port.get("name", "")
    if name:
        found += names.problems(f"{path}.name", name, names.label(name))
    elif named:
        found.append(field.required(f"{path}.name"))
    found += field.port(f"{path}.port", port.get("port", 0))
    found += field.one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)
    target = port.get("targetPort")
    if isinstance(target, int):
        found += field.port(f"{path}.targetPort", target)
    elif target is not None:
        found += names.problems(f"{path}.targetPort", target, names.port_name(target))
    return found


def _twice(ports: list[Object]) -> list[Cause]:
    """Return what two ports of one Service share and may not."""
    found: list[Cause] = []
    taken: set[tuple[str, Any]] = set()
    for n, port in enumerate(ports):
        number = (port.get("protocol"), port.get("port"))
        if ("port", number) in taken:
            found.append(field.duplicate(f"spec.ports[{n}]", _go_port(port)))
        if port.get("name") and ("name", port["name"]) in taken:
            found.append(field.duplicate(f"spec.ports[{n}].name", port["name"]))
        node = (port.get("protocol"), port.get("nodePort"))
        if port.get("nodePort") and ("node", node) in taken:
            found.append(field.duplicate(f"spec.ports[{n}].nodePort", port["nodePort"]))
        taken |= {("port", number), ("name", port.get("name")), ("node", node)}
    return found


def _go_port(port: Object) -> Object:
    """A port as the error shows it: the internal Go type, printed as JSON."""
    return {
        "Name": "",
        "Protocol": port.get("protocol"),
        "AppProtocol": None,
        "Port": port.get("port"),
        "TargetPort": 0,
        "NodePort": 0,
    }


def service_update(old: Object, new: Object) -> list[Cause]:
    """Return what an update of a Service may not change: a cluster IP that is in use."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if "ExternalName" in (before.get("type"), after.get("type")):
        return []
    was, now = before.get("clusterIPs") or [], after.get("clusterIPs") or []
    if was and now and was[0] != now[0]:
        return [field.invalid("spec.clusterIPs[0]", now, "may not change once set")]
    return []


def endpoints(obj: Object) -> list[Cause]:
    """Return what is wrong with Endpoints."""
    found: list[Cause] = []
    for n, subset in enumerate(obj.get("subsets") or ()):
        for kind in ("addresses", "notReadyAddresses"):
            for m, address in enumerate(subset.get(kind) or ()):
                found += _ip(f"subsets[{n}].{kind}[{m}].ip", address.get("ip", ""))
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            rule = "must specify `addresses` or `notReadyAddresses`"
            found.append(field.required(f"subsets[{n}]", rule))
        for m, port in enumerate(subset.get("ports") or ()):
            found += _endpoint_port(f"subsets[{n}].ports[{m}]", port)
    return found


def _endpoint_port(path: str, port: Object) -> list[Cause]:
    found = field.port(f"{path}.port", port["port"]) if port.get("port") is not None else []
    return found + field.one_of(f"{path}.protocol", port.get("protocol"), PROTOCOLS)


def endpoint_slice(obj: Object) -> list[Cause]:
    """Return what is wrong with an EndpointSlice."""
    kind = obj.get("addressType")
    if not kind:
        found = [field.required("addressType")]
    else:
        found = field.one_of("addressType", kind, ("IPv4", "IPv6", "FQDN"))
    for n, endpoint in enumerate(obj.get("endpoints") or ()):
        addresses = endpoint.get("addresses") or ()
        if not addresses:
            found.append(
                field.required(f"endpoints[{n}].addresses", "must contain at least 1 address")
            )
        for m, address in enumerate(addresses if kind in ("IPv4", "IPv6") else ()):
            found += _ip(f"endpoints[{n}].addresses[{m}]", address)
    for m, port in enumerate(obj.get("ports") or ()):
        found += _endpoint_port(f"ports[{m}]", port)
    return found
