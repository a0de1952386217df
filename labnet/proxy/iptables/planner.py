"""All services of a node, put together into the netfilter that kube-proxy wants.

A service port's rules depend on nothing but that port (:class:`Fragment`), so they can be
kept from one pass to the next and only those of a changed service are made anew; what is
done here on each pass is to lay them side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from labnet.plan.netfilter import Hook, NetfilterState, Rules, Wanted
from labnet.proxy.iptables import current, v1_2
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
)
from labnet.proxy.model import Portal

Style = Literal["current", "v1.2"]

SHARED = frozenset({SERVICES, EXTERNAL_SERVICES, NODEPORTS, PROXY_FIREWALL})
OWNED = (
    *sorted(SHARED),
    POSTROUTING,
    MARK_MASQ,
    FORWARD,
    "KUBE-PROXY-CANARY",
    "KUBE-SVC-",
    "KUBE-SVL-",
    "KUBE-EXT-",
    "KUBE-FW-",
    "KUBE-XLB-",
    "KUBE-SEP-",
)
LEFT_BEHIND = (*OWNED, "KUBE-FIREWALL")
"""What goes when a node no longer uses iptables mode; nobody else here makes these."""


@dataclass(frozen=True, slots=True)
class StyleRules:
    """A style's two functions."""

    fragment: Callable[[Portal, RuleConfig], Fragment]
    base: Callable[[], Base]


STYLES: dict[Style, StyleRules] = {
    "current": StyleRules(current.fragment, current.base),
    "v1.2": StyleRules(v1_2.fragment, v1_2.base),
}


def wanted(style: Style, fragments: Iterable[Fragment]) -> Wanted:
    """Return the netfilter for all ``fragments``, in the order they are given."""
    base = STYLES[style].base()
    nat: dict[str, Rules] = dict(base.nat)
    filters: dict[str, Rules] = dict(base.filter)
    lines: list[Hook] = []
    for fragment in fragments:
        nat.update(fragment.chains)
        lines += fragment.shared
    tables = {"nat": nat, "filter": filters}
    for (table, chain), rules in _by_chain([*lines, *base.last]).items():
        tables[table][chain] = tuple(rules)
    return Wanted(NetfilterState(tables), hooks=base.hooks, owned=OWNED, shared=SHARED)


def rules_for(style: Style, portals: Iterable[Portal], config: RuleConfig) -> Wanted:
    """Return the netfilter for all ``portals``."""
    fragment = STYLES[style].fragment
    return wanted(style, (fragment(portal, config) for portal in portals))


def _by_chain(lines: Iterable[Hook]) -> dict[tuple[str, str], list[str]]:
    chains: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        chains.setdefault((line.table, line.chain), []).append(line.rule)
    return chains
