"""kube-proxy put together: mirrors of the API's objects, a syncer, and the loop.

Nothing is written before both mirrors are complete: a proxy that starts while the API
server is away leaves the rules of its predecessor alone.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack

from labnet.client.api import Api
from labnet.client.informer import Informer
from labnet.client.kinds import ENDPOINT_SLICES, SERVICES
from labnet.clock import Clock
from labnet.node.kube_proxy.events import EventReporter
from labnet.node.kube_proxy.loop import Loop
from labnet.node.kube_proxy.node_ports import NodePorts
from labnet.node.kube_proxy.program import Programmed
from labnet.node.kube_proxy.syncer import ProxyKernel, Settings, Syncer

log = logging.getLogger("kube-proxy")

_PATIENCE = 0.1  # seconds between two looks whether to stop waiting


class KubeProxy:
    """One node's kube-proxy; ``run`` returns after ``stop``."""

    def __init__(
        self,
        settings: Settings,
        api: Api,
        kernel: ProxyKernel,
        clock: Clock,
        ports: NodePorts | None = None,
    ) -> None:
        self._clock = clock
        self._syncer = Syncer(settings, kernel, EventReporter(api, settings.node, clock), ports)
        self._loop = Loop(self._sync)
        self._services = Informer(api, SERVICES, self._changed)
        self._slices = Informer(api, ENDPOINT_SLICES, self._changed)
        self._ready = threading.Event()

    def run(self) -> None:
        """Keep the node in step until stopped; the rules stay as they are then."""
        with ExitStack() as stack:
            stack.callback(self._syncer.close)
            stack.enter_context(self._services)
            stack.enter_context(self._slices)
            while not (
                self._services.wait_synced(_PATIENCE) and self._slices.wait_synced(_PATIENCE)
            ):
                if self._loop.is_stopped:
                    return
            self._loop.run()

    def stop(self) -> None:
        """Let ``run`` return; callable from a signal's handler."""
        self._loop.stop()

    def wait_synced(self, timeout: float) -> bool:
        """Wait for the first pass over complete mirrors; False after ``timeout`` seconds."""
        return self._ready.wait(timeout)

    def _changed(self, *_: object) -> None:
        self._loop.wake()

    def _sync(self) -> None:
        start = self._clock.monotonic()
        done = self._syncer.sync(self._services.objects(), self._slices.objects())
        self._ready.set()
        _tell(done, self._clock.monotonic() - start)


def _tell(done: Programmed, seconds: float) -> None:
    if done.written:
        lines = sum(len(transaction.lines) for transaction in done.written)
        log.info(
            "wrote %d lines in %d transactions, %.0f ms",
            lines,
            len(done.written),
            seconds * 1000,
        )
