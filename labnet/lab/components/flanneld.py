"""flanneld of one node: configuration, parts, and the loop around them.

One thread follows the leases in etcd and leaves the newest picture for the main thread,
which syncs when there is a new one and every ten seconds without (so that a route
somebody deleted by hand comes back, as with the real one). The process ends on SIGTERM;
what it made stays, as pods need it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import threading
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from labnet.clock import SystemClock
from labnet.errors import LabnetError
from labnet.kernel.linux import LinuxKernel
from labnet.kernel.netfilter import LinuxNetfilter
from labnet.node.flanneld import Flanneld, Settings
from labnet.store.etcd import EtcdStore
from labnet.store.model import Store
from labnet.store.tls import Tls
from labnet.subnet.lease import Lease
from labnet.subnet.manager import Manager
from labnet.subnet.watch import Watch, snapshots

RESYNC = 10.0  # seconds between passes when nothing happens
RETRY = 1.0  # seconds after a failure
FORMAT = "%(levelname).1s%(asctime)s.%(msecs)03d %(name)s] %(message)s"
log = logging.getLogger("flanneld")


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
            subnet_file=Path(config.get("subnet_file", "/run/flannel/subnet.env")),
        ),
        net_conf=conf if isinstance(conf, str) else json.dumps(conf),
        etcd=config["etcd"],
        tls=Tls(config["etcd_ca"], config["etcd_cert"], config["etcd_key"]),
    )


class Feed:
    """The newest leases, followed by a thread of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._latest: tuple[Lease, ...] | None = None
        self._fresh = False
        self._over = False
        self._watch: Watch | None = None
        self._thread = threading.Thread(target=self._follow, name="leases", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and every ``wait``."""
        with self._changed:
            self._over = True
            watch, self._watch = self._watch, None
            self._changed.notify_all()
        if watch:
            watch.__exit__(None, None, None)

    @property
    def over(self) -> bool:
        """Whether ``stop`` was called."""
        return self._over

    def wait(self, seconds: float) -> tuple[Lease, ...] | None:
        """Return the leases once they changed, or as they are after ``seconds``."""
        with self._changed:
            self._changed.wait_for(lambda: self._fresh or self._over, seconds)
            self._fresh = False
            return self._latest

    def pause(self, seconds: float) -> None:
        """Let ``seconds`` pass, or less if ``stop`` is called."""
        with self._changed:
            self._changed.wait_for(lambda: self._over, seconds)

    def _follow(self) -> None:
        while not self._over:
            try:
                for leases in snapshots(self._store, self._opened):
                    self._publish(leases)
            except LabnetError as e:
                self._failed(e)

    def _failed(self, error: LabnetError) -> None:
        if not self._over:  # else the store was closed under the watch, as it should be
            log.warning("leases: %s", error)
            self.pause(RETRY)

    def _opened(self, watch: Watch) -> None:
        with self._changed:
            self._watch = watch

    def _publish(self, leases: tuple[Lease, ...]) -> None:
        with self._changed:
            self._latest, self._fresh = leases, True
            self._changed.notify_all()


def main(config: dict[str, Any]) -> None:
    """Run until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format=FORMAT, datefmt="%m%d %H:%M:%S")
    c = parse(config)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(EtcdStore(c.etcd, c.tls))
        kernel = stack.enter_context(LinuxKernel(c.settings.node))
        feed = Feed(store)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: threading.Thread(target=feed.stop).start())
        manager = Manager(store)
        netfilter = stack.enter_context(contextlib.closing(LinuxNetfilter()))
        flanneld = Flanneld(c.settings, manager, kernel, netfilter, SystemClock())
        run(flanneld, manager, feed, c.net_conf)


def run(flanneld: Flanneld, manager: Manager, feed: Feed, net_conf: str) -> None:
    """Take the lease, then sync until ``feed`` is stopped; errors are tried again."""
    if not _begin(flanneld, manager, feed, net_conf):
        return
    feed.start()
    while not feed.over:
        leases = feed.wait(RESYNC)
        if leases is None or feed.over:
            continue
        try:
            flanneld.renew()
            flanneld.sync(leases)
        except LabnetError as e:
            log.warning("%s%s", e, f" ({e.hint})" if e.hint else "")
            feed.pause(RETRY)


def _begin(flanneld: Flanneld, manager: Manager, feed: Feed, net_conf: str) -> bool:
    """Publish the configuration and take the lease; wait for etcd as long as it takes."""
    while not feed.over:
        try:
            manager.publish(net_conf)
            flanneld.start()
            flanneld.sync(manager.leases()[0])
        except LabnetError as e:
            log.warning("%s%s", e, f" ({e.hint})" if e.hint else "")
            feed.pause(RETRY)
        else:
            return True
    return False
