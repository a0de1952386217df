"""Which packets leave with the node's address, and which may be forwarded at all.

Pod addresses mean nothing outside the cluster, so a packet from a pod to the outside
must leave with the node's address or no answer finds back. Between pods it must keep
its own, or policies and logs see the wrong client. The rules are flannel's
(``pkg/trafficmngr/iptables``), in the order a packet meets them; packets that kube-proxy
marked are left to kube-proxy, lest two rules translate one packet.

FLANNEL-FWD accepts what comes from or goes to pods: Docker since 1.13 sets the policy of
FORWARD to DROP, and where that happened nothing else lets pods through. It is hooked in
behind everything else: kube-proxy's rules, which reject a service without endpoints, must
see a packet before it is accepted for good.
"""

from __future__ import annotations

from ipaddress import IPv4Network

from labnet.naming import MASQUERADE_MARK
from labnet.plan.netfilter import Hook, Wanted, frozen

POSTROUTING = "FLANNEL-POSTRTG"
FORWARD = "FLANNEL-FWD"
MULTICAST = "224.0.0.0/4"
_MASQ = '-m comment --comment "flanneld masq"'
_FORWARD = '-m comment --comment "flanneld forward"'


def wanted(network: IPv4Network, subnet: IPv4Network, *, masquerade: bool = True) -> Wanted:
    """Return flannel's chains for a node with ``subnet`` of the pods' ``network``."""
    tables = {"filter": {FORWARD: _forward(network)}}
    hooks = [Hook("filter", "FORWARD", f"{_FORWARD} -j {FORWARD}", last=True)]
    if masquerade:
        tables["nat"] = {POSTROUTING: _postrouting(network, subnet)}
        hooks.append(Hook("nat", "POSTROUTING", f"{_MASQ} -j {POSTROUTING}", last=True))
    return Wanted(frozen(tables), tuple(hooks), owned=(POSTROUTING, FORWARD))


def _forward(network: IPv4Network) -> tuple[str, ...]:
    return (
        f"-s {network} {_FORWARD} -j ACCEPT",
        f"-d {network} {_FORWARD} -j ACCEPT",
    )


def _postrouting(network: IPv4Network, subnet: IPv4Network) -> tuple[str, ...]:
    return (
        f"-m mark --mark {MASQUERADE_MARK} {_MASQ} -j RETURN",
        f"-s {subnet} -d {network} {_MASQ} -j RETURN",
        f"-s {network} -d {subnet} {_MASQ} -j RETURN",
        f"! -s {network} -d {subnet} {_MASQ} -j RETURN",
        f"-s {network} ! -d {MULTICAST} {_MASQ} -j MASQUERADE --random-fully",
        f"! -s {network} -d {network} {_MASQ} -j MASQUERADE --random-fully",
    )
