"""The process ``kube-proxy@NODE``: services' virtual IPs on one node.

It runs in its node's namespaces and writes rules there and nowhere else. SIGTERM ends it;
what it wrote stays, so that connections go on while it is away.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from threading import Event
from typing import Any, get_args

from labnet.client.http import Client, Tls
from labnet.clock import SystemClock
from labnet.errors import LabnetError, Unsupported
from labnet.kernel.conntrack import LinuxConntrack
from labnet.kernel.linux import LinuxKernel
from labnet.lab.components.lifetime import until_terminated, when
from labnet.lab.components.proxy_modes import MODES, STYLED, mode_of, others
from labnet.node.kube_proxy.mode import Settings
from labnet.node.kube_proxy.run import KubeProxy
from labnet.plan.ops import SetSysctl
from labnet.plan.state import Sysctl
from labnet.proxy.iptables.planner import Style

log = logging.getLogger("kube-proxy")


@dataclass(frozen=True, slots=True)
class Config:
    """What the component is told; ``style`` counts in the modes of ``STYLED``."""

    api: str
    tls: Tls
    settings: Settings
    mode: str
    style: Style


def parse(config: dict[str, Any]) -> Config:
    """Return ``config`` checked. Raises ``Unsupported`` for a mode or style unknown."""
    mode, style = config.get("mode", "iptables"), config.get("style", "current")
    if mode not in MODES:
        raise Unsupported(f"kube-proxy mode {mode!r}", hint=f"known: {', '.join(MODES)}")
    if style not in get_args(Style):
        raise Unsupported(f"rule style {style!r}", hint=f"known: {', '.join(get_args(Style))}")
    service_cidr = config.get("service_cidr")
    return Config(
        api=config["api"],
        tls=Tls(config["ca"], config["cert"], config["key"]),
        settings=Settings(
            node=config["node"],
            address=IPv4Address(config["address"]),
            pod_cidr=IPv4Network(config["pod_cidr"]),
            service_cidr=IPv4Network(service_cidr) if service_cidr else None,
        ),
        mode=mode,
        style=style,
    )


def main(config: dict[str, object]) -> None:
    """Run until SIGTERM."""
    settled = parse(config)

    def run(stop: Event) -> None:
        _say(settled)
        _route_localnet(settled.settings.node)
        with ExitStack() as stack:
            client = stack.enter_context(Client(settled.api, settled.tls, user_agent="kube-proxy"))
            proxy = KubeProxy(
                settled.settings,
                client,
                mode_of(settled.mode, settled.settings, settled.style, stack),
                stack.enter_context(LinuxConntrack()),
                SystemClock(),
                others=others(settled.mode, settled.settings, stack),
            )
            when(stop, proxy.stop)
            proxy.run()

    until_terminated(run)


def _say(settled: Config) -> None:
    if settled.mode in STYLED:
        log.info("mode %s, rule style %s", settled.mode, settled.style)
    elif settled.style != "current":
        log.info("mode %s ignores rule style %s", settled.mode, settled.style)
    else:
        log.info("mode %s", settled.mode)


def _route_localnet(node: str) -> None:
    """Let a node port on 127.0.0.1 be translated to a pod: else the kernel calls it martian."""
    setting = Sysctl("net.ipv4.conf.all.route_localnet", "1")
    with LinuxKernel(node) as kernel:
        try:
            kernel.apply(SetSysctl(setting, "node ports on 127.0.0.1"))
        except LabnetError as error:
            log.warning("node ports will not answer on 127.0.0.1: %s", error.message)
