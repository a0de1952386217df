"""Services: what was allocated for them, and what becomes of it on an update.

A cluster IP and the node ports are the server's to give. A client that replaces a
Service by its manifest leaves them out and means: as before. A client that changes the
type means: whatever the new type needs.
"""

from __future__ import annotations

from labnet.api.meta import Object

_WITH_ADDRESS = ("ClusterIP", "NodePort", "LoadBalancer")
_WITH_PORTS = ("NodePort", "LoadBalancer")


def needs_cluster_ip(service: Object) -> bool:
    """Whether a (defaulted) Service still has to be given a cluster IP."""
    spec = service.get("spec") or {}
    return spec.get("type") in _WITH_ADDRESS and not spec.get("clusterIP")


def with_cluster_ip(service: Object, address: str) -> None:
    """Give ``service`` its cluster IP, in place."""
    service["spec"] |= {"clusterIP": address, "clusterIPs": [address]}


def needs_node_ports(service: Object) -> list[int]:
    """Return the indexes of the ports that still have to be given a node port."""
    spec = service.get("spec") or {}
    if spec.get("type") not in _WITH_PORTS or spec.get("allocateLoadBalancerNodePorts") is False:
        return []
    return [n for n, port in enumerate(spec.get("ports") or ()) if not port.get("nodePort")]


def keep_allocated(old: Object, new: Object) -> None:
    """Carry over to ``new``, in place, what it leaves out and its type still needs."""
    before, after = old.get("spec") or {}, new.setdefault("spec", {})
    was, now = before.get("type", "ClusterIP"), after.get("type") or "ClusterIP"
    if was in _WITH_ADDRESS and now in _WITH_ADDRESS:
        for name in ("clusterIP", "clusterIPs"):
            if not after.get(name) and before.get(name):
                after[name] = before[name]
        _follow_first(before, after)
    if now == "ExternalName" and was in _WITH_ADDRESS:
        _drop_same(before, after, ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"))
    if now in _WITH_PORTS:
        _keep_node_ports(before, after)
    elif was in _WITH_PORTS:
        _drop_node_ports(before, after)
        _drop_same(before, after, ("externalTrafficPolicy", "allocateLoadBalancerNodePorts"))


def _follow_first(before: Object, after: Object) -> None:
    """Let ``clusterIPs`` follow when only ``clusterIP`` was changed."""
    if after.get("clusterIP") != before.get("clusterIP") and after.get("clusterIPs") == before.get(
        "clusterIPs"
    ):
        after["clusterIPs"] = [after["clusterIP"]]


def _drop_same(before: Object, after: Object, names: tuple[str, ...]) -> None:
    for name in names:
        if name in after and after[name] == before.get(name):
            del after[name]


def _port_key(port: Object) -> tuple[str, int]:
    return port.get("protocol") or "TCP", port.get("port", 0)


def _keep_node_ports(before: Object, after: Object) -> None:
    known = {_port_key(p): p["nodePort"] for p in before.get("ports") or () if p.get("nodePort")}
    taken = {p["nodePort"] for p in after.get("ports") or () if p.get("nodePort")}
    for port in after.get("ports") or ():
        given = known.get(_port_key(port))
        if given and not port.get("nodePort") and given not in taken:
            port["nodePort"] = given


def _drop_node_ports(before: Object, after: Object) -> None:
    known = {p.get("nodePort") for p in before.get("ports") or ()}
    for port in after.get("ports") or ():
        if port.get("nodePort") in known:
            port.pop("nodePort", None)
