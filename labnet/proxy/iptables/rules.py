"""The text of rules, in the spelling of ``iptables-save``.

What every rule has in common is in :mod:`labnet.proxy.rule_text`; here is what the two
styles of the iptables mode share. A probability is shown as the kernel holds it, in steps
of 2⁻³¹.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from labnet.plan.netfilter import Chains, Hook
from labnet.proxy.model import Endpoint
from labnet.proxy.rule_text import TO_NODE, comment

SERVICES = "KUBE-SERVICES"
EXTERNAL_SERVICES = "KUBE-EXTERNAL-SERVICES"
NODEPORTS = "KUBE-NODEPORTS"
POSTROUTING = "KUBE-POSTROUTING"
MARK_MASQ = "KUBE-MARK-MASQ"
FORWARD = "KUBE-FORWARD"
PROXY_FIREWALL = "KUBE-PROXY-FIREWALL"


@dataclass(frozen=True, slots=True)
class RuleConfig:
    """What rules depend on besides the services."""

    pod_cidr: IPv4Network  # the cluster's: traffic from outside it is masqueraded
    node_address: IPv4Address


@dataclass(frozen=True, slots=True)
class Fragment:
    """The rules of one service port: its own nat chains, and lines in shared chains."""

    chains: Chains
    shared: tuple[Hook, ...]


@dataclass(frozen=True, slots=True)
class Base:
    """What is there without any service.

    ``nat`` and ``filter`` are whole chains; ``last`` are rules that stay behind those of
    all services in their shared chain.
    """

    nat: Chains
    filter: Chains
    last: tuple[Hook, ...]
    hooks: tuple[Hook, ...]


def to_local_port(protocol: str, port: int, remark: str) -> str:
    """Match packets to a port of any address of this node."""
    p = protocol.lower()
    return f"-p {p} {comment(remark)} {TO_NODE} -m {p} --dport {port}"


def endpoint_rules(
    chain: str, endpoint: Endpoint, protocol: str, name: str, affinity: bool
) -> tuple[str, ...]:
    """Return a KUBE-SEP chain: mark the endpoint's packets to itself, translate the rest.

    A pod that reaches itself through its service must see another source, else its
    answer would not come back through the connection tracker (the hairpin).
    """
    p = protocol.lower()
    note = comment(name)
    remember = (
        f" -m recent --set --name {chain} --mask 255.255.255.255 --rsource" if affinity else ""
    )
    return (
        f"-s {endpoint.address}/32 {note} -j {MARK_MASQ}",
        f"-p {p} {note}{remember} -m {p} -j DNAT --to-destination {endpoint}",
    )


def remembered(chain: str, seconds: int, remark: str) -> str:
    """Return the rule that sends a known client to the endpoint it had."""
    return (
        f"{comment(remark)} -m recent --rcheck --seconds {seconds} --reap"
        f" --name {chain} --mask 255.255.255.255 --rsource -j {chain}"
    )


def chosen(chain: str, remark: str, probability: str) -> str:
    """Return the rule that sends a packet to ``chain``; "" is every packet."""
    dice = f" -m statistic --mode random --probability {probability}" if probability else ""
    return f"{comment(remark)}{dice} -j {chain}"


def probabilities(count: int, digits: int) -> tuple[str, ...]:
    """Return the chances of ``count`` rules in a row so that each endpoint gets 1/count.

    The first of n takes 1/n, the next 1/(n-1) of what is left; the last needs no dice.
    ``digits`` is how many kube-proxy writes; the kernel rounds to steps of 2⁻³¹.
    """
    return (*(_probability(n, digits) for n in range(count, 1, -1)), "")[-count:] if count else ()


def _probability(n: int, digits: int) -> str:
    steps = round(float(f"{1 / n:.{digits}f}") * 0x80000000)
    return f"{steps / 0x80000000:.11f}"


def node_ports_last() -> Hook:
    """Return the rule that must be the last in KUBE-SERVICES.

    It matches every packet to this node, so it must not stand before a virtual IP.
    """
    remark = "kubernetes service nodeports; NOTE: this must be the last rule in this chain"
    return Hook("nat", SERVICES, f"{comment(remark)} {TO_NODE} -j {NODEPORTS}")
