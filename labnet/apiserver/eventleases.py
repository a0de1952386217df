"""Events are forgotten after an hour: each is bound to an etcd lease.

A lease of its own for every event would be a call to etcd for every event; as in
Kubernetes, those of the same few minutes share one, and some live a little longer.
"""

from __future__ import annotations

import threading

from labnet.clock import Clock
from labnet.store.model import Store

LIFETIME = 3600  # seconds an event is kept at least
SHARED_FOR = 300  # seconds during which new events join the same lease


class EventLeases:
    """Hands out the lease that new events are bound to; safe from several threads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._lease = 0
        self._until = 0.0

    def current(self) -> int:
        """Return the id of a lease with at least ``LIFETIME`` to go. Raises Unavailable."""
        with self._lock:
            now = self._clock.monotonic()
            if not self._lease or now >= self._until:
                self._lease = self._store.grant(LIFETIME + SHARED_FOR)
                self._until = now + SHARED_FOR
            return self._lease
