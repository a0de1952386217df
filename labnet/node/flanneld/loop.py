"""When flanneld looks: at once when a lease changed, and every ten seconds without.

A thread follows the leases in etcd (:class:`Feed`) and leaves the newest picture for the
loop; ten changes during one pass are one more pass. A pass without a change brings back a
route that somebody deleted by hand. Nothing here is lost by being killed: the next start
lists the leases anew.
"""

from __future__ import annotations

import logging
import threading

from labnet.errors import LabnetError
from labnet.node.flanneld.sync import Flanneld
from labnet.store.model import Store
from labnet.subnet.lease import Lease
from labnet.subnet.manager import Manager
from labnet.subnet.watch import Watch, snapshots

RESYNC = 10.0  # seconds between passes when nothing happens
RETRY = 1.0  # seconds after a failure
log = logging.getLogger("flanneld")


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
            _failed(feed, e)


def _begin(flanneld: Flanneld, manager: Manager, feed: Feed, net_conf: str) -> bool:
    """Publish the configuration and take the lease; wait for etcd as long as it takes."""
    while not feed.over:
        try:
            manager.publish(net_conf)
            flanneld.start()
            flanneld.sync(manager.leases()[0])
        except LabnetError as e:
            _failed(feed, e)
        else:
            return True
    return False


def _failed(feed: Feed, error: LabnetError) -> None:
    log.warning("%s%s", error, f" ({error.hint})" if error.hint else "")
    feed.pause(RETRY)
