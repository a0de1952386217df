"""A whole API server, from a store and listening sockets: started, running, stopped.

The order of the start is what makes it quick and safe: the cache is loaded and the first
objects are written before a request is taken, and requests that came meanwhile wait in
the sockets' backlogs, which exist before this process does.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from random import Random
from socket import socket
from typing import Self

from labnet.api.resources import stored
from labnet.apiserver import bootstrap
from labnet.apiserver.app import Parts, create_app
from labnet.apiserver.auth import Authenticator
from labnet.apiserver.cache import WatchCache
from labnet.apiserver.choice import RandomChooser
from labnet.apiserver.kubelets import Kubelets
from labnet.apiserver.periodic import Periodic
from labnet.apiserver.reservations import Ranges
from labnet.apiserver.streams import StreamLoop
from labnet.apiserver.worker import Worker
from labnet.clock import Clock, SystemClock
from labnet.store.model import Store
from labnet.store.tls import Tls

COMPACTION = 300.0  # seconds of history that etcd keeps, as under a real API server
BOOTSTRAP = 10.0  # seconds until a deleted Service `kubernetes` is back, likewise

LOG = logging.getLogger("kube-apiserver")


class ApiServer:
    """Serves ``store`` on ``sockets``. A context manager: its threads run inside.

    ``address`` is the host and port under which the cluster reaches it. Raises
    Unavailable on entering when the store does not answer.
    """

    def __init__(
        self,
        store: Store,
        sockets: Sequence[socket],
        context: ssl.SSLContext,
        *,
        authenticator: Authenticator,
        ranges: Ranges,
        address: tuple[str, int],
        kubelet_tls: Tls | None = None,
        clock: Clock | None = None,
    ) -> None:
        random = Random()  # seeded by the kernel; drawing from that each time costs a system call
        clock = clock or SystemClock()
        self._address = address
        cache = WatchCache(store, [resource.storage for resource in stored()])
        self.parts = Parts(
            store=store,
            cache=cache,
            streams=StreamLoop(clock),
            authenticator=authenticator,
            kubelets=Kubelets(cache, kubelet_tls),
            ranges=ranges,
            clock=clock,
            chooser=RandomChooser(random),
            random=random,
            address=f"{address[0]}:{address[1]}",
        )
        self._worker = Worker(create_app(self.parts), sockets, context)
        self._known = 0  # the revision at the last compaction
        self._periodic = (
            Periodic("compaction", COMPACTION, self._compact),
            Periodic("bootstrap", BOOTSTRAP, self.bootstrap),
        )

    def __enter__(self) -> Self:
        self.parts.cache.start()
        self.parts.streams.start()
        for task in self._periodic:
            task.start()
        try:
            self.bootstrap()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for task in self._periodic:
            task.stop()
        self.parts.streams.stop()
        self.parts.cache.stop()

    def bootstrap(self) -> None:
        """Write those of the first objects that are not there. Raises Unavailable."""
        first, now = str(self.parts.ranges.first_address), self.parts.clock.now()
        bootstrap.write(self.parts.writing(), first, *self._address, now)

    def serve(self) -> None:
        """Answer requests until ``stop``."""
        LOG.info("serving on %s", self.parts.address)
        self._worker.serve()

    def stop(self) -> None:
        """Make ``serve`` return; safe in a signal handler and from any thread."""
        self._worker.stop()

    def _compact(self) -> None:
        """Let the store forget what is older than the last time this was called."""
        if self._known:
            self.parts.store.compact(self._known)
        self._known = self.parts.cache.revision
