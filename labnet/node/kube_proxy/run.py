"""kube-proxy put together: mirrors of the API's objects, a syncer, and the loop.

Nothing is written before both mirrors are complete: a proxy that starts while the API
server is away leaves the rules of its predecessor alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime

from labnet.client.api import Api
from labnet.client.events import Recorder
from labnet.client.informer import Informer
from labnet.client.kinds import ENDPOINT_SLICES, SERVICES
from labnet.clock import Clock, rfc3339
from labnet.errors import LabnetError
from labnet.node.kube_proxy.events import EventReporter
from labnet.node.kube_proxy.health import HEALTHZ_PORT, Answer, HealthServer
from labnet.node.kube_proxy.loop import Loop
from labnet.node.kube_proxy.mode import Mode, Programmed, Settings
from labnet.node.kube_proxy.node_ports import NodePorts
from labnet.node.kube_proxy.syncer import Syncer
from labnet.plan.conntrack import ConntrackKernel
from labnet.proxy.model import Portal

log = logging.getLogger("kube-proxy")

_PATIENCE = 0.1  # seconds between two looks whether to stop waiting


class KubeProxy:
    """One node's kube-proxy; ``run`` returns after ``stop``."""

    def __init__(
        self,
        settings: Settings,
        api: Api,
        mode: Mode,
        kernel: ConntrackKernel,
        clock: Clock,
        *,
        ports: NodePorts | None = None,
        others: Iterable[Mode] = (),
    ) -> None:
        self._clock = clock
        self._recorder = Recorder(api, "kube-proxy", settings.node, clock)
        report = EventReporter(self._recorder, settings.node)
        self._syncer = Syncer(settings, mode, kernel, report, ports, others)
        self._loop = Loop(self._sync)
        self._services = Informer(api, SERVICES, self._changed)
        self._slices = Informer(api, ENDPOINT_SLICES, self._changed)
        self._ready = threading.Event()
        self._health = HealthServer(self._condition)
        self._last_pass: datetime | None = None  # None: the last one failed, or none yet

    def run(self) -> None:
        """Keep the node in step until stopped; the rules stay as they are then."""
        with ExitStack() as stack:
            stack.enter_context(self._recorder)
            stack.callback(self._syncer.close)
            stack.callback(self._health.close)
            self._health.listen([HEALTHZ_PORT])
            self._health.start()
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
        try:
            done = self._syncer.sync(self._services.objects(), self._slices.objects())
        except LabnetError:
            self._last_pass = None
            raise
        self._last_pass = self._clock.now()
        self._ready.set()
        self._health.listen({HEALTHZ_PORT, *self._checked()})
        _tell(done, self._clock.monotonic() - start)

    def _checked(self) -> dict[int, Portal]:
        """Return the services with a health check port, by that port."""
        portals = self._syncer.portals()
        return {
            p.port.health_check_port: p
            for p in portals
            if p.port.health_check_port and p.port.external_local
        }

    def _condition(self, port: int) -> Answer:
        """Say whether what stands behind a health port is well."""
        if port == HEALTHZ_PORT:
            now = rfc3339(self._clock.now())
            last = self._last_pass
            when = rfc3339(last) if last else ""
            return last is not None, {
                "lastUpdated": when,
                "currentTime": now,
                "nodeEligible": True,
            }
        portal = self._checked().get(port)
        if portal is None:
            return False, {"localEndpoints": 0}
        return portal.ready_here > 0, {
            "service": {"namespace": portal.port.namespace, "name": portal.port.name},
            "localEndpoints": portal.ready_here,
            "serviceProxyHealthy": self._last_pass is not None,
        }


def _tell(done: Programmed, seconds: float) -> None:
    if done.written:
        lines = sum(len(transaction.lines) for transaction in done.written)
        log.info(
            "wrote %d lines in %d transactions, %.0f ms",
            lines,
            len(done.written),
            seconds * 1000,
        )
