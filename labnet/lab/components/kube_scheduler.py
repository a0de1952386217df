"""The process ``kube-scheduler``: a node for every pod. See :mod:`labnet.scheduler`.

It is told which owners' pods have pinned addresses and which node's subnet holds each, so
that a pod lands where its address can be had.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from labnet.client.http import Client, Tls
from labnet.lab.components.lifetime import until_terminated
from labnet.scheduler.pins import Pins
from labnet.scheduler.run import Scheduler


@dataclass(frozen=True, slots=True)
class Config:
    """What the component is told."""

    api: str
    tls: Tls
    pins: Pins


def parse(config: dict[str, Any]) -> Config:
    """Read the JSON configuration: addresses by owner, subnets by node."""
    pods = config.get("pod_pins") or {}
    subnets = config.get("pinned_subnets") or {}
    pins = Pins(
        {owner: tuple(IPv4Address(a) for a in addresses) for owner, addresses in pods.items()},
        {node: IPv4Network(subnet) for node, subnet in subnets.items()},
    )
    return Config(config["api"], Tls(config["ca"], config["cert"], config["key"]), pins)


def main(config: dict[str, object]) -> None:
    """Run until SIGTERM."""
    parsed = parse(config)

    def run(stop: threading.Event) -> None:
        with Client(parsed.api, parsed.tls, user_agent="kube-scheduler") as client:
            if client.wait_ready(stop):
                Scheduler(client, parsed.pins).run(stop)

    until_terminated(run)
