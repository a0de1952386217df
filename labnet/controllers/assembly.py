"""All reconcilers together: what kube-controller-manager runs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from labnet.client.api import Api
from labnet.client.events import Recorder
from labnet.clock import Clock, SystemClock
from labnet.controllers.deployment import Deployments
from labnet.controllers.endpoints import EndpointsReconciler
from labnet.controllers.endpointslice import EndpointSlices
from labnet.controllers.garbage import Garbage
from labnet.controllers.loop import Loop, Mirrors, Reconciler
from labnet.controllers.namespace import Namespaces
from labnet.controllers.node_lifecycle import NodeLifecycle
from labnet.controllers.podgc import PodGc
from labnet.controllers.replicaset import ReplicaSets
from labnet.controllers.serviceaccount import ServiceAccounts
from labnet.controllers.services import ServiceIndex
from labnet.controllers.writes import Hands

COMPONENT = "kube-controller-manager"
WRITERS = 8  # requests at a time for one controller's run of creations


def reconcilers(mirrors: Mirrors, api: Api, clock: Clock, grace: float) -> list[Reconciler]:
    """Return every reconciler; ``grace`` is how long a node may be silent, in seconds."""
    services = ServiceIndex(mirrors)
    return [
        Deployments(mirrors, clock),
        ReplicaSets(mirrors, clock),
        EndpointSlices(mirrors, services),
        EndpointsReconciler(mirrors, services),
        NodeLifecycle(mirrors, clock, grace),
        PodGc(mirrors, api),
        Garbage(mirrors, api),
        Namespaces(mirrors, api),
        ServiceAccounts(mirrors),
    ]


class Controllers:
    """The controller manager; ``run`` returns when ``stop`` is set."""

    def __init__(self, api: Api, grace: float, clock: Clock | None = None) -> None:
        self._api = api
        self._clock = clock or SystemClock()
        self._grace = grace

    def run(self, stop: threading.Event) -> None:
        """Mirror the API, run every loop, until ``stop`` is set."""
        mirrors = Mirrors(self._api)
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(WRITERS, "writer"))
            recorder = stack.enter_context(Recorder(self._api, COMPONENT, clock=self._clock))
            hands = Hands(self._api, recorder, pool)
            found = reconcilers(mirrors, self._api, self._clock, self._grace)
            loops = [Loop(each, mirrors, hands, self._clock) for each in found]
            for loop in loops:
                stack.callback(loop.stop)
            stack.enter_context(mirrors)
            if mirrors.wait_synced(stop):
                for loop in loops:
                    loop.start()
            stop.wait()
