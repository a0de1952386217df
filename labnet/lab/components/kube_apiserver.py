"""The process ``kube-apiserver``: the API on the underlay and on the host's loopback.

It runs in the control plane's namespaces. One of its two sockets comes from outside: PID 1
keeps a listener that was bound on the host's 127.0.0.1 before there was a sandbox, and
hands it to every incarnation of this process, so that kubectl on the host finds it at
the same port after a restart.
"""

from __future__ import annotations

import logging
import signal
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from labnet.apiserver.auth import Authenticator, parse_tokens
from labnet.apiserver.reservations import Ranges
from labnet.apiserver.server import ApiServer
from labnet.apiserver.tls import server_context
from labnet.errors import Unavailable
from labnet.lab.components.lifetime import start_logging
from labnet.store.etcd import EtcdStore
from labnet.store.tls import Tls

BACKLOG = 256
ETCD_DEADLINE = 2.0  # seconds a request waits for etcd before it is told 503

log = logging.getLogger("kube-apiserver")


@dataclass(frozen=True, slots=True)
class Config:
    """What the component is told."""

    etcd: str
    etcd_tls: Tls
    listen: tuple[str, int]
    handed_over: tuple[int, ...]  # file descriptors of sockets that listen already
    serving_cert: str
    serving_key: str
    client_ca: str
    tokens: str
    kubelet_tls: Tls
    ranges: Ranges


def parse(config: dict[str, Any]) -> Config:
    """Return ``config`` checked."""
    host, _, port = config["listen"].rpartition(":")
    pins = config.get("service_pins") or {}
    first, last = config["node_port_range"]
    return Config(
        etcd=config["etcd"],
        etcd_tls=Tls(config["etcd_ca"], config["etcd_cert"], config["etcd_key"]),
        listen=(host, int(port)),
        handed_over=tuple((config.get("sockets") or {}).values()),
        serving_cert=config["serving_cert"],
        serving_key=config["serving_key"],
        client_ca=config["client_ca"],
        tokens=config["tokens"],
        kubelet_tls=Tls(config["client_ca"], config["kubelet_cert"], config["kubelet_key"]),
        ranges=Ranges(
            IPv4Network(config["service_cidr"]),
            (first, last),
            {owner: IPv4Address(address) for owner, address in pins.items()},
        ),
    )


def main(config: dict[str, object]) -> None:
    """Serve until SIGTERM."""
    start_logging()
    parsed = parse(config)
    sockets = listeners(parsed)
    context = server_context(parsed.serving_cert, parsed.serving_key, parsed.client_ca)
    with Path(parsed.tokens).open(encoding="utf-8") as lines:
        authenticator = Authenticator(parse_tokens(lines))
    with EtcdStore(parsed.etcd, parsed.etcd_tls, deadline=ETCD_DEADLINE) as store:
        _await(store)
        server = ApiServer(
            store,
            sockets,
            context,
            authenticator=authenticator,
            ranges=parsed.ranges,
            address=parsed.listen,
            kubelet_tls=parsed.kubelet_tls,
        )
        with server:
            signal.signal(signal.SIGTERM, lambda *_: server.stop())
            server.serve()


def listeners(config: Config) -> list[socket.socket]:
    """Return the sockets to serve: those handed over, and one on the underlay."""
    handed_over = [socket.socket(fileno=fd) for fd in config.handed_over]
    return [*handed_over, socket.create_server(config.listen, backlog=BACKLOG)]


def _await(store: EtcdStore) -> None:
    """Wait for etcd, which is started at the same time as this process."""
    while True:
        try:
            store.get("/registry/health")
        except Unavailable as error:
            log.info("waiting for etcd: %s", error.message)
        else:
            return
