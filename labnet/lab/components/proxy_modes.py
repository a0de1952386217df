"""The proxy modes there are, each with its part of the real kernel.

A mode is built only when a node is in it, or may have been in it before. The usual one is
imported at once, so that PID 1 has it loaded for every node; the others when they are
needed. A new one needs a line in ``MODES``, its name in ``lab.schema.json`` and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from labnet.clock import SystemClock
from labnet.errors import Unsupported
from labnet.kernel.conntrack import LinuxConntrack
from labnet.kernel.netfilter import LinuxNetfilter
from labnet.node.kube_proxy.iptables import IptablesMode
from labnet.node.kube_proxy.mode import Mode, Settings
from labnet.proxy.iptables.planner import Style
from labnet.proxy.iptables.rules import RuleConfig

log = logging.getLogger("kube-proxy")

Build = Callable[[Settings, Style, ExitStack], Mode]


def mode_of(name: str, settings: Settings, style: Style, stack: ExitStack) -> Mode:
    """Return the mode ``name``; ``stack`` closes its kernel. Raises ``Unsupported``."""
    return MODES[name](settings, style, stack)


def others(name: str, settings: Settings, stack: ExitStack) -> tuple[Mode, ...]:
    """Return all modes but ``name`` that this machine can have been in."""
    found: list[Mode] = []
    for other, build in MODES.items():
        if other == name:
            continue
        try:
            found.append(build(settings, "current", stack))
        except Unsupported as error:  # then it has left nothing either
            log.debug("no %s mode here: %s", other, error)
    return tuple(found)


def _iptables(settings: Settings, style: Style, stack: ExitStack) -> Mode:
    kernel = stack.enter_context(LinuxNetfilter())
    return IptablesMode(RuleConfig(settings.pod_cidr, settings.address), kernel, style)


def _userspace(settings: Settings, style: Style, stack: ExitStack) -> Mode:
    # Imported here: a relay and its loop are in few labs' processes.
    from labnet.kernel.relay import LinuxRelays
    from labnet.node.kube_proxy.userspace import UserspaceMode

    return UserspaceMode(
        settings,
        stack.enter_context(LinuxNetfilter()),
        stack.enter_context(LinuxConntrack()),
        stack.enter_context(LinuxRelays()),
        SystemClock(),
        style,
    )


MODES: Mapping[str, Build] = {"iptables": _iptables, "userspace": _userspace}
STYLED = frozenset({"iptables", "userspace"})  # the modes that can write rules in two styles
