"""Rules as kube-proxy of Kubernetes 1.2 wrote them, in 2016, and the articles print them.

One chain per service port, one per endpoint, no separate way for outsiders: a node port
marks the packet for masquerading and joins the service's chain. The name of a port
without name keeps its colon (``default/my-nginx:``), in the comments and in what the
chains' names are hashed from. Nothing is masqueraded on its way to a cluster IP (this
kube-proxy ran without ``--cluster-cidr``) but a pod's packet to itself. So a node that
calls a remote pod shows its own underlay address, unless flannel masquerades it, and that
pod's node answers it directly: reverse path filtering must be off (``rp_filter`` 0 or 2)
there, else the packet is lost.

Traffic policies did not exist; every endpoint serves all. One thing is newer than 1.2: the
rejection of a service without endpoints is hooked into INPUT and FORWARD too, not only
into OUTPUT, so that a pod's connect fails at once instead of timing out (k8s#17359).
"""

from __future__ import annotations

from collections.abc import Iterator

from labnet.naming import MASQUERADE_MARK, endpoint_chain, service_chain
from labnet.plan.netfilter import Hook, Rules
from labnet.proxy.iptables.rules import (
    MARK_MASQ,
    NODEPORTS,
    POSTROUTING,
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
from labnet.proxy.model import Portal, ServicePort
from labnet.proxy.rule_text import comment, to_address, to_node_port

_DIGITS = 5
_REJECT = "REJECT --reject-with icmp-port-unreachable"


def service_name(port: ServicePort) -> str:
    """Return ``namespace/name:port``; the colon stays where the port has no name."""
    return f"{port.key}:{port.port_name}"


def fragment(portal: Portal, config: RuleConfig) -> Fragment:
    """Return the rules of one portal; ``config`` matters to the other style only."""
    port = portal.port
    name = service_name(port)
    if not portal.cluster:
        return Fragment({}, tuple(_refusals(port, name)))
    svc = service_chain("KUBE-SVC", name, port.protocol)
    seps = [endpoint_chain(name, port.protocol, str(e)) for e in portal.cluster]
    chains: dict[str, Rules] = {
        chain: endpoint_rules(chain, e, port.protocol, name, bool(port.affinity_seconds))
        for chain, e in zip(seps, portal.cluster, strict=True)
    }
    chains[svc] = tuple(_balance(port, name, seps))
    return Fragment(chains, tuple(_translations(port, name, svc)))


def _balance(port: ServicePort, name: str, seps: list[str]) -> Iterator[str]:
    if port.affinity_seconds:
        for chain in seps:
            yield remembered(chain, port.affinity_seconds, name)
    for chain, probability in zip(seps, probabilities(len(seps), _DIGITS), strict=True):
        yield chosen(chain, name, probability)


def _translations(port: ServicePort, name: str, svc: str) -> Iterator[Hook]:
    match = to_address(port.cluster_ip, port.protocol, port.port, f"{name} cluster IP")
    yield Hook("nat", SERVICES, f"{match} -j {svc}")
    outside = [(a, "external IP") for a in port.external_ips]
    outside += [(a, "loadbalancer IP") for a in port.load_balancer_ips]
    for address, kind in outside:
        match = to_address(address, port.protocol, port.port, f"{name} {kind}")
        yield Hook("nat", SERVICES, f"{match} -j {MARK_MASQ}")
        yield Hook("nat", SERVICES, f"{match} -j {svc}")
    if port.node_port:
        match = to_node_port(port.protocol, port.node_port, name)
        yield Hook("nat", NODEPORTS, f"{match} -j {MARK_MASQ}")
        yield Hook("nat", NODEPORTS, f"{match} -j {svc}")


def _refusals(port: ServicePort, name: str) -> Iterator[Hook]:
    remark = f"{name} has no endpoints"
    for address in (port.cluster_ip, *port.external_ips, *port.load_balancer_ips):
        match = to_address(address, port.protocol, port.port, remark)
        yield Hook("filter", SERVICES, f"{match} -j {_REJECT}")
    if port.node_port:
        match = to_local_port(port.protocol, port.node_port, remark)
        yield Hook("filter", SERVICES, f"{match} -j {_REJECT}")


def base() -> Base:
    """Return the chains and hooks that are there without any service."""
    portals = comment("kubernetes service portals")
    masquerade = comment("kubernetes service traffic requiring SNAT")
    return Base(
        nat={
            MARK_MASQ: (f"-j MARK --set-xmark {MASQUERADE_MARK}",),
            POSTROUTING: (f"{masquerade} -m mark --mark {MASQUERADE_MARK} -j MASQUERADE",),
            NODEPORTS: (),
            SERVICES: (),
        },
        filter={SERVICES: ()},
        last=(node_ports_last(),),
        hooks=(
            Hook("nat", "PREROUTING", f"{portals} -j {SERVICES}"),
            Hook("nat", "OUTPUT", f"{portals} -j {SERVICES}"),
            Hook(
                "nat",
                "POSTROUTING",
                f"{comment('kubernetes postrouting rules')} -j {POSTROUTING}",
            ),
            Hook("filter", "INPUT", f"{portals} -j {SERVICES}"),
            Hook("filter", "FORWARD", f"{portals} -j {SERVICES}"),
            Hook("filter", "OUTPUT", f"{portals} -j {SERVICES}"),
        ),
    )
