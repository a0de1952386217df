"""The process ``kube-controller-manager``: what was asked for becomes what is.

Deployments become ReplicaSets and they become pods; Services get their endpoints; a
silent node's pods leave them; what lost its owner is cleared away. See
:mod:`labnet.controllers`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from labnet.client.http import Client, Tls
from labnet.controllers.assembly import COMPONENT, Controllers
from labnet.lab.components.lifetime import until_terminated


@dataclass(frozen=True, slots=True)
class Config:
    """What the component is told; ``node_monitor_grace`` in seconds."""

    api: str
    tls: Tls
    node_monitor_grace: float = 40.0


def parse(config: dict[str, Any]) -> Config:
    """Read the JSON configuration."""
    return Config(
        api=config["api"],
        tls=Tls(config["ca"], config["cert"], config["key"]),
        node_monitor_grace=float(config.get("node_monitor_grace", 40.0)),
    )


def main(config: dict[str, object]) -> None:
    """Run until SIGTERM."""
    parsed = parse(config)

    def run(stop: threading.Event) -> None:
        with Client(parsed.api, parsed.tls, user_agent=COMPONENT) as client:
            if client.wait_ready(stop):
                Controllers(client, parsed.node_monitor_grace).run(stop)

    until_terminated(run)
