"""Rules as kube-proxy of Kubernetes 1.36 writes them.

Chains per service port, all in nat: ``KUBE-SVC`` balances over all endpoints, ``KUBE-SVL``
over this node's (policy Local), ``KUBE-EXT`` takes what comes from outside, ``KUBE-FW``
stands before it where the load balancer's source ranges are limited, ``KUBE-SEP`` is one
endpoint. What enters from outside the pod network by a policy that may leave the node is
marked for masquerading, so that the answer comes back the same way.

Left out, as kube-proxy leaves them out where the kernel has no nfacct: the counters.
Shapes: kubernetes ``pkg/proxy/iptables/proxier.go``, ``pkg/proxy/topology.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labnet.naming import MASQUERADE_MARK, endpoint_chain, service_chain
from labnet.plan.netfilter import Hook, Rules
from labnet.proxy.iptables.rules import (
    EXTERNAL_SERVICES,
    FORWARD,
    MARK_MASQ,
    NODEPORTS,
    POSTROUTING,
    PROXY_FIREWALL,
    SERVICES,
    Base,
    Fragment,
    RuleConfig,
    chosen,
    endpoint_rules,
    node_ports_last,
    probabilities,
    remembered,
    to_local_port,
)
from labnet.proxy.model import Endpoint, Portal, ServicePort
from labnet.proxy.rule_text import comment, to_address, to_node_port

_DIGITS = 10
_NEW = "-m conntrack --ctstate NEW "
_REJECT = "REJECT --reject-with icmp-port-unreachable"


def service_name(port: ServicePort) -> str:
    """Return ``namespace/name:port``, without the colon where the port has no name."""
    return f"{port.key}:{port.port_name}" if port.port_name else port.key


@dataclass(frozen=True, slots=True)
class _Names:
    """The names that belong to one service port."""

    text: str
    svc: str
    svl: str
    ext: str
    fw: str

    @classmethod
    def of(cls, port: ServicePort) -> _Names:
        text = service_name(port)
        chains = (service_chain(f"KUBE-{k}", text, port.protocol) for k in _KINDS)
        return cls(text, *chains)


_KINDS = ("SVC", "SVL", "EXT", "FW")


def fragment(portal: Portal, config: RuleConfig) -> Fragment:
    """Return the rules of one portal."""
    port = portal.port
    names = _Names.of(port)
    chains: dict[str, Rules] = {}
    cluster = portal.cluster if port.uses_cluster else ()
    local = portal.local if port.uses_local else ()
    for endpoint in sorted({*cluster, *local}):
        chain = endpoint_chain(names.text, port.protocol, str(endpoint))
        chains[chain] = endpoint_rules(
            chain, endpoint, port.protocol, names.text, bool(port.affinity_seconds)
        )
    for name, endpoints, policy in ((names.svc, cluster, False), (names.svl, local, True)):
        if endpoints:
            mark = _mark_outsiders(portal, names, config) if port.internal_local is policy else ()
            chains[name] = (*mark, *_balance(port, names, endpoints))
    if port.is_external and portal.exists:
        chains[names.ext] = tuple(_external(portal, names, config))
        if port.source_ranges and port.load_balancer_ips:
            chains[names.fw] = tuple(_firewall(port, names, config))
    return Fragment(chains, (*_translations(portal, names), *_refusals(portal, names)))


def _mark_outsiders(portal: Portal, names: _Names, config: RuleConfig) -> Rules:
    port = portal.port
    match = to_address(port.cluster_ip, port.protocol, port.port, f"{names.text} cluster IP")
    return (f"! -s {config.pod_cidr} {match} -j {MARK_MASQ}",)


def _balance(port: ServicePort, names: _Names, endpoints: tuple[Endpoint, ...]) -> Iterator[str]:
    chains = [
        (endpoint_chain(names.text, port.protocol, str(e)), f"{names.text} -> {e}")
        for e in endpoints
    ]
    if port.affinity_seconds:
        for chain, remark in chains:
            yield remembered(chain, port.affinity_seconds, remark)
    dice = probabilities(len(chains), _DIGITS)
    for (chain, remark), probability in zip(chains, dice, strict=True):
        yield chosen(chain, remark, probability)


def _external(portal: Portal, names: _Names, config: RuleConfig) -> Iterator[str]:
    """KUBE-EXT: what arrives for a node port, an external or a load balancer address."""
    destinations = f"for {names.text} external destinations"
    if not portal.port.external_local:
        yield f"{comment(f'masquerade traffic {destinations}')} -j {MARK_MASQ}"
    else:
        # From inside the cluster the external address is a short cut to the service:
        # all endpoints, whatever the policy for outsiders (k8s#93456).
        from_node = "-m addrtype --src-type LOCAL"
        pods = comment(f"pod traffic {destinations}")
        yield f"-s {config.pod_cidr} {pods} -j {names.svc}"
        masq, route = (comment(f"{do} LOCAL traffic {destinations}") for do in _DO)
        yield f"{masq} {from_node} -j {MARK_MASQ}"
        yield f"{route} {from_node} -j {names.svc}"
    if portal.external:
        yield f"-j {names.svl if portal.port.external_local else names.svc}"


_DO = ("masquerade", "route")


def _firewall(port: ServicePort, names: _Names, config: RuleConfig) -> Iterator[str]:
    """KUBE-FW: the allowed ranges go on, the rest falls out and is dropped in filter."""
    remark = comment(f"{names.text} loadbalancer IP")
    for source in port.source_ranges:
        yield f"-s {source} {remark} -j {names.ext}"
    if any(config.node_address in source for source in port.source_ranges):
        # The node's own packets to the address carry that address as their source.
        for address in port.load_balancer_ips:
            yield f"-s {address}/32 {remark} -j {names.ext}"


def _translations(portal: Portal, names: _Names) -> Iterator[Hook]:
    """The lines in nat's shared chains that lead to the service."""
    port = portal.port
    if portal.internal:
        chain = names.svl if port.internal_local else names.svc
        match = to_address(port.cluster_ip, port.protocol, port.port, f"{names.text} cluster IP")
        yield Hook("nat", SERVICES, f"{match} -j {chain}")
    if not portal.exists:
        return
    for address in port.external_ips:
        match = to_address(address, port.protocol, port.port, f"{names.text} external IP")
        yield Hook("nat", SERVICES, f"{match} -j {names.ext}")
    entry = names.fw if port.source_ranges else names.ext
    for address in port.load_balancer_ips:
        match = to_address(address, port.protocol, port.port, f"{names.text} loadbalancer IP")
        yield Hook("nat", SERVICES, f"{match} -j {entry}")
    if port.node_port:
        match = to_node_port(port.protocol, port.node_port, names.text)
        yield Hook("nat", NODEPORTS, f"{match} -j {names.ext}")


def _refusals(portal: Portal, names: _Names) -> Iterator[Hook]:
    """The lines in filter: rejected without any endpoint, dropped without a local one."""
    port = portal.port
    remark, target = (
        (f"{names.text} has no local endpoints", "DROP")
        if portal.exists
        else (f"{names.text} has no endpoints", _REJECT)
    )
    if not portal.internal:
        match = to_address(port.cluster_ip, port.protocol, port.port, remark)
        yield Hook("filter", SERVICES, f"{match} -j {target}")
    if not portal.external:
        for address in (*port.external_ips, *port.load_balancer_ips):
            match = to_address(address, port.protocol, port.port, remark)
            yield Hook("filter", EXTERNAL_SERVICES, f"{match} -j {target}")
        if port.node_port:
            match = to_local_port(port.protocol, port.node_port, remark)
            yield Hook("filter", EXTERNAL_SERVICES, f"{match} -j {target}")
    if port.source_ranges and portal.exists:
        blocked = f"{names.text} traffic not accepted by {names.fw}"
        for address in port.load_balancer_ips:
            match = to_address(address, port.protocol, port.port, blocked)
            yield Hook("filter", PROXY_FIREWALL, f"{match} -j DROP")
    if port.health_check_port and port.external_local:
        match = to_node_port("TCP", port.health_check_port, f"{names.text} health check node port")
        yield Hook("filter", NODEPORTS, f"{match} -j ACCEPT")


def base() -> Base:
    """Return the chains and hooks that are there without any service."""
    return Base(
        nat={
            MARK_MASQ: (f"-j MARK --set-xmark {MASQUERADE_MARK}",),
            POSTROUTING: (
                f"-m mark ! --mark {MASQUERADE_MARK} -j RETURN",
                # Cleared, so that a packet that comes by again (IPsec, a tunnel) is not
                # masqueraded twice; the xor of kube-proxy, as iptables-save prints it.
                "-j MARK --set-xmark 0x4000/0x0",
                f"{comment('kubernetes service traffic requiring SNAT')}"
                " -j MASQUERADE --random-fully",
            ),
            NODEPORTS: (),
            SERVICES: (),
        },
        filter={
            FORWARD: (
                # A segment the tracker cannot place is not translated back; the client
                # would answer it with a reset (k8s#74839).
                "-m conntrack --ctstate INVALID -j DROP",
                f"{comment('kubernetes forwarding rules')}"
                f" -m mark --mark {MASQUERADE_MARK} -j ACCEPT",
                f"{comment('kubernetes forwarding conntrack rule')}"
                " -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
            ),
            SERVICES: (),
            EXTERNAL_SERVICES: (),
            NODEPORTS: (),
            PROXY_FIREWALL: (),
        },
        last=(node_ports_last(),),
        hooks=_HOOKS,
    )


def _hook(table: str, chain: str, target: str, remark: str, match: str = "") -> Hook:
    return Hook(table, chain, f"{match}{comment(remark)} -j {target}")


_FIREWALL = "KUBE-FIREWALL"  # the kubelet's; kube-proxy makes sure of its one rule too
_PORTALS = "kubernetes service portals"
_EXTERNAL = "kubernetes externally-visible service portals"
_BALANCER = "kubernetes load balancer firewall"
_LOCALNET = (
    f"! -s 127.0.0.0/8 -d 127.0.0.0/8 {comment('block incoming localnet connections')}"
    " -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"
)
_HOOKS = (
    _hook("nat", "PREROUTING", SERVICES, _PORTALS),
    _hook("nat", "OUTPUT", SERVICES, _PORTALS),
    _hook("nat", "POSTROUTING", POSTROUTING, "kubernetes postrouting rules"),
    _hook("filter", "INPUT", PROXY_FIREWALL, _BALANCER, _NEW),
    _hook("filter", "INPUT", NODEPORTS, "kubernetes health check service ports"),
    _hook("filter", "INPUT", EXTERNAL_SERVICES, _EXTERNAL, _NEW),
    Hook("filter", "INPUT", f"-j {_FIREWALL}"),
    _hook("filter", "FORWARD", PROXY_FIREWALL, _BALANCER, _NEW),
    _hook("filter", "FORWARD", FORWARD, "kubernetes forwarding rules"),
    _hook("filter", "FORWARD", SERVICES, _PORTALS, _NEW),
    _hook("filter", "FORWARD", EXTERNAL_SERVICES, _EXTERNAL, _NEW),
    _hook("filter", "OUTPUT", PROXY_FIREWALL, _BALANCER, _NEW),
    _hook("filter", "OUTPUT", SERVICES, _PORTALS, _NEW),
    Hook("filter", "OUTPUT", f"-j {_FIREWALL}"),
    Hook("filter", _FIREWALL, _LOCALNET),
)
