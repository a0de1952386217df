"""The process ``flanneld@NODE``: this node's subnet, and the way to the others'.

It runs in its node's namespaces and talks to etcd itself, not to the API server, as
flannel did from the start. SIGTERM ends it; what it made stays, as pods need it.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from threading import Event
from typing import Any

from labnet.clock import SystemClock
from labnet.kernel.linux import LinuxKernel
from labnet.kernel.netfilter import LinuxNetfilter
from labnet.lab.components.lifetime import until_terminated, when
from labnet.node.flanneld.loop import Feed, run
from labnet.node.flanneld.sync import Flanneld, Settings
from labnet.store.etcd import EtcdStore
from labnet.store.tls import Tls
from labnet.subnet import file
from labnet.subnet.manager import Manager


@dataclass(frozen=True, slots=True)
class Config:
    """The component's configuration."""

    settings: Settings
    net_conf: str
    etcd: str
    tls: Tls


def parse(config: dict[str, Any]) -> Config:
    """Read the JSON configuration; ``net_conf`` may be JSON or its text."""
    conf = config["net_conf"]
    subnet = config.get("subnet")
    return Config(
        settings=Settings(
            node=config["node"],
            public_ip=IPv4Address(config["public_ip"]),
            interface=config.get("interface", "eth0"),
            pinned=IPv4Network(subnet) if subnet else None,
            reserved=tuple(IPv4Network(s) for s in config.get("reserved_subnets", ())),
            subnet_file=Path(config.get("subnet_file", file.PATH)),
        ),
        net_conf=conf if isinstance(conf, str) else json.dumps(conf),
        etcd=config["etcd"],
        tls=Tls(config["etcd_ca"], config["etcd_cert"], config["etcd_key"]),
    )


def main(config: dict[str, object]) -> None:
    """Run until SIGTERM."""
    told = parse(config)
    until_terminated(lambda stop: _run(told, stop))


def _run(told: Config, stop: Event) -> None:
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(EtcdStore(told.etcd, told.tls))
        kernel = stack.enter_context(LinuxKernel(told.settings.node))
        netfilter = stack.enter_context(LinuxNetfilter())
        feed, manager = Feed(store), Manager(store)
        when(stop, feed.stop)
        flanneld = Flanneld(told.settings, manager, kernel, netfilter, SystemClock())
        run(flanneld, manager, feed, told.net_conf)
