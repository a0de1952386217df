"""When kube-proxy looks: soon after a change, and now and then without one.

Changes come in bursts (a rollout touches a slice many times), so the first of a burst
starts a short wait and one pass serves all of it. Without changes a pass every few
seconds notices what somebody else did to the rules and heals it; that pass costs one
netlink message when nobody did.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from labnet.errors import LabnetError

log = logging.getLogger("kube-proxy")

GATHER = 0.02  # seconds from the first change of a burst to the pass
RESYNC = 5.0  # seconds between passes without a change
RETRY = 1.0  # seconds after a failed pass


class Loop:
    """Runs ``sync`` whenever it is woken, until it is stopped."""

    def __init__(
        self,
        sync: Callable[[], object],
        *,
        gather: float = GATHER,
        resync: float = RESYNC,
        retry: float = RETRY,
    ) -> None:
        self._sync = sync
        self._gather = gather
        self._resync = resync
        self._retry = retry
        self._changed = threading.Event()
        self._stopped = threading.Event()

    def wake(self) -> None:
        """Something changed; callable from any thread."""
        self._changed.set()

    def stop(self) -> None:
        """Let ``run`` return after the pass it is in."""
        self._stopped.set()
        self._changed.set()

    @property
    def is_stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopped.is_set()

    def run(self) -> None:
        """Sync until stopped. A failed pass is logged and repeated."""
        while not self._stopped.is_set():
            wait = self._resync
            try:
                self._sync()
            except LabnetError as error:
                log.warning("sync failed: %s", error)
                wait = self._retry
            if self._changed.wait(wait):
                self._stopped.wait(self._gather)
            self._changed.clear()
