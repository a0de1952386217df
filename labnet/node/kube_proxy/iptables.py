"""The iptables mode: services as rules of the nat and filter tables."""

from __future__ import annotations

from collections.abc import Iterable

from labnet.node.kube_proxy.mode import Programmed, Services
from labnet.node.kube_proxy.program import program
from labnet.plan.netfilter import NetfilterKernel, NetfilterState, Wanted
from labnet.proxy.iptables.planner import LEFT_BEHIND, STYLES, Style, wanted
from labnet.proxy.iptables.rules import Fragment, RuleConfig
from labnet.proxy.model import Portal

_Kept = tuple[tuple[Portal, ...], tuple[Fragment, ...]]


class IptablesMode:
    """A ``Mode``: keeps a node's iptables rules in step.

    The rules of services that did not change are remembered, which saves time and
    nothing else.
    """

    name = "iptables"
    translates = True

    def __init__(
        self, rules: RuleConfig, kernel: NetfilterKernel, style: Style = "current"
    ) -> None:
        self._rules = rules
        self._kernel = kernel
        self._style: Style = style
        self._kept: dict[str, _Kept] = {}

    def sync(self, services: Services) -> Programmed:
        """Make the node's rules match; return what was written. Raises ``OpFailed``."""
        self._kept = {
            name: self._planned(name, portals) for name, portals in sorted(services.items())
        }
        fragments = (f for _, fragments in self._kept.values() for f in fragments)
        return program(wanted(self._style, fragments), self._kernel)

    def remove(self) -> Programmed:
        """Remove kube-proxy's chains and the rules that lead into them."""
        return program(Wanted(NetfilterState(), owned=LEFT_BEHIND), self._kernel)

    def close(self) -> None:
        """Nothing belongs to this process."""

    def _planned(self, name: str, portals: tuple[Portal, ...]) -> _Kept:
        known = self._kept.get(name)
        if known and (known[0] is portals or known[0] == portals):
            return known
        return portals, tuple(self._fragments(portals))

    def _fragments(self, portals: Iterable[Portal]) -> Iterable[Fragment]:
        fragment = STYLES[self._style].fragment
        return (fragment(portal, self._rules) for portal in portals)
