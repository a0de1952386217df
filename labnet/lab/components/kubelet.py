"""kubelet: makes the pods of its node, keeps them running, and reports on both.

Put together from the API client, the zygote (which forks for it), the node's pod
network and the process runtime. It returns at SIGTERM; the pods it made go on and the
next kubelet finds them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from labnet.client.http import Client, Tls
from labnet.clock import SystemClock
from labnet.errors import Unsupported
from labnet.kernel.linux import LinuxKernel
from labnet.lab.components.lifetime import until_terminated
from labnet.linux.seqpacket import Client as Transport
from labnet.node.kubelet.kubelet import Kubelet, Setting
from labnet.node.kubelet.machine import read_host, read_machine
from labnet.node.kubelet.node import Identity
from labnet.node.kubelet.server import Serving
from labnet.node.network import BridgeNetwork
from labnet.node.runtime.process import ProcessRuntime
from labnet.node.runtime.pump import LogPump
from labnet.sandbox.zygote import Zygote
from labnet.subnet import file

log = logging.getLogger(__name__)

ZYGOTE_SOCKET = Path("/run/labnet/zygote.sock")
RUNTIME_VERSION = "process://0.1.0"


@dataclass(frozen=True, slots=True)
class Config:
    """The kubelet's configuration, as PID 1 hands it over."""

    node: str
    address: IPv4Address
    api: str
    tls: Tls
    serving: Serving
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    node_lease: float
    range_start: IPv4Address | None
    reserved: frozenset[IPv4Address]
    cluster_dns: IPv4Address | None
    cluster_domain: str
    subnet_file: Path


def parse(config: Mapping[str, Any]) -> Config:
    """Return the typed configuration. Raises ``Unsupported`` for another runtime."""
    if config.get("runtime", "process") != "process":
        raise Unsupported(f"runtime {config['runtime']!r} is not there", hint="runtime: process")
    address = IPv4Address(config["address"])
    serving = Serving(
        str(address),
        int(config.get("port", 10250)),
        config["serving_cert"],
        config["serving_key"],
        config["ca"],
    )
    return Config(
        node=config["node"],
        address=address,
        api=config["api"],
        tls=Tls(config["ca"], config["cert"], config["key"]),
        serving=serving,
        labels=config.get("labels") or {},
        taints=tuple(config.get("taints") or ()),
        node_lease=float(config.get("node_lease", 40)),
        range_start=_address(config.get("range_start")),
        reserved=frozenset(IPv4Address(a) for a in config.get("reserved_addresses") or ()),
        cluster_dns=_address(config.get("cluster_dns")),
        cluster_domain=config.get("cluster_domain", "cluster.local"),
        subnet_file=Path(config.get("subnet_file", file.PATH)),
    )


def _address(text: str | None) -> IPv4Address | None:
    return IPv4Address(text) if text else None


def main(config: dict[str, object]) -> None:
    """Run until SIGTERM."""
    wanted = parse(config)
    until_terminated(lambda stop: _run(wanted, stop))


def _run(wanted: Config, stop: threading.Event) -> None:
    clock = SystemClock()
    pump = LogPump(clock)
    runtime = ProcessRuntime(Zygote(Transport(ZYGOTE_SOCKET)), wanted.node, clock, pump)
    kubelet = Kubelet(_setting(wanted, runtime, pump, clock))
    runtime.start()
    kubelet.start(wanted.serving)
    log.info("kubelet of %s serves on %s:%s", wanted.node, wanted.address, wanted.serving.port)
    stop.wait()
    kubelet.stop()


def _setting(wanted: Config, runtime: ProcessRuntime, pump: LogPump, clock: SystemClock) -> Setting:
    identity = Identity(
        name=wanted.node,
        address=wanted.address,
        port=wanted.serving.port,
        labels=wanted.labels,
        taints=wanted.taints,
        lease_seconds=wanted.node_lease,
        runtime=RUNTIME_VERSION,
    )
    network = BridgeNetwork(
        LinuxKernel(wanted.node),
        subnet_file=wanted.subnet_file,
        range_start=wanted.range_start,
        reserved=wanted.reserved,
    )
    machine = read_machine(wanted.node, wanted.address, wanted.cluster_domain, wanted.cluster_dns)
    api = Client(wanted.api, wanted.tls, user_agent="kubelet/v1.37.0 (labnet)")
    return Setting(api, runtime, network, pump, clock, machine, read_host(), identity)
