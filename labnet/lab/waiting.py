"""Waiting until a lab works: objects first, then a packet through every virtual address.

Kinds are asked for in the order in which they become ready, one stage at a time: while
a node is not Ready nobody reads pods. So waiting costs the API server one or two small
requests at a time while it has better things to do.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from labnet.clock import Clock
from labnet.errors import LabnetError, Unavailable
from labnet.lab.readiness import Cluster, Door, Missing, explanation, missing
from labnet.sandbox.spec import Process

_LOOK_AGAIN = 0.04  # seconds
_DIAL_SECONDS = 0.15  # without rules a connection to a virtual address just hangs
_DIALLERS = 8
_SHOWN = 5

# The collections of each stage, by the field of Cluster they fill.
_STAGES: tuple[dict[str, str], ...] = (
    {"nodes": "/api/v1/nodes"},
    {"deployments": "/apis/apps/v1/deployments", "pods": "/api/v1/pods"},
    {
        "services": "/api/v1/services",
        "slices": "/apis/discovery.k8s.io/v1/endpointslices",
    },
)
_EVENTS = "/api/v1/events"
_READY = "/readyz"
_ENOUGH_RESTARTS = 3


class Lists(Protocol):
    """What waiting asks of the API server."""

    def items(self, path: str) -> Sequence[Mapping[str, Any]]:
        """Return the objects of the collection at ``path``."""


class Probe(Protocol):
    """Asking whether the API server is ready."""

    def get(self, path: str) -> object:
        """Return the document at ``path``; raises ``Unavailable``."""


Report = Callable[[str], None]
Dial = Callable[[str, Door], None]
"""Connects to a door from a host and hangs up; raises ``Unavailable``."""


class Waiting:
    """Waits with one deadline for everything that makes a lab work."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._deadline = clock.monotonic() + seconds
        self._seconds = seconds
        self._pause = threading.Event()

    def until_api_answers(
        self, api: Probe, components: Callable[[], Sequence[Process]], report: Report
    ) -> None:
        """Return once the API server says that it is ready.

        Its socket exists from the start, so a first request usually just waits for the
        answer. Raises ``LabnetError`` early if a component keeps ending.
        """
        while (refusal := _api_refusal(api)) is not None:
            report("the API server")
            failing = [one for one in components() if one.restarts >= _ENOUGH_RESTARTS]
            if failing:
                raise _keeps_ending(failing[0])
            if not self._paused():
                raise LabnetError(
                    f"the API server does not answer: {refusal}", hint="labnet logs kube-apiserver"
                )

    def until_ready(self, api: Lists, expected_nodes: Collection[str], report: Report) -> Cluster:
        """Return the cluster once nothing is missing any more.

        Raises ``LabnetError`` with one explained line per missing thing.
        """
        cluster = Cluster()
        for stages in range(1, len(_STAGES) + 1):
            while left := missing(cluster := cluster_of(api, stages), expected_nodes):
                report(_summary(left))
                if not self._paused():
                    raise self._not_ready(left, api)
        return cluster

    def until_answering(
        self, doors: Sequence[Door], hosts: Sequence[str], dial: Dial, report: Report
    ) -> None:
        """Return once every door takes a connection from every host."""

        def attempt(pair: tuple[str, Door]) -> tuple[str, Door] | None:
            return _refusal(dial, *pair)

        closed = [(host, door) for door in doors for host in hosts]
        with ThreadPoolExecutor(_DIALLERS) as pool:
            while closed := list(filter(None, pool.map(attempt, closed))):
                report(f"{closed[0][1].service} from {closed[0][0]}")
                if not self._paused():
                    raise self._not_answering(*closed[0])

    def _paused(self) -> bool:
        """Wait a moment; return False if there is no time left."""
        if self._clock.monotonic() > self._deadline:
            return False
        self._pause.wait(_LOOK_AGAIN)
        return True

    def _not_ready(self, left: Sequence[Missing], api: Lists) -> LabnetError:
        text = explanation(left[:_SHOWN], api.items(_EVENTS))
        more = f"\n… and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        return LabnetError(f"not ready after {self._seconds:.0f} s:\n{text}{more}")

    def _not_answering(self, host: str, door: Door) -> LabnetError:
        return LabnetError(
            f"service {door.service} does not answer on {door.address}:{door.port} from {host}, "
            f"{self._seconds:.0f} s after everything else was ready",
            hint=f"labnet logs kube-proxy@{host}",
        )


def dialling(connect: Callable[..., int]) -> Dial:
    """Return a Dial over ``Zygote.dial``."""

    def dial(host: str, door: Door) -> None:
        os.close(connect(door.address, door.port, host=host, timeout=_DIAL_SECONDS))

    return dial


def _api_refusal(api: Probe) -> Unavailable | None:
    try:
        api.get(_READY)
    except Unavailable as refusal:
        return refusal
    return None


def _keeps_ending(component: Process) -> LabnetError:
    code = component.exit.code if component.exit else 0
    return LabnetError(
        f"{component.id} ended {component.restarts} times, last with code {code}",
        hint=f"labnet logs {component.id}",
    )


def cluster_of(api: Lists, stages: int = len(_STAGES)) -> Cluster:
    """Read the collections of the first ``stages`` stages; all of them by default."""
    paths = {field: path for stage in _STAGES[:stages] for field, path in stage.items()}
    return Cluster(**{field: api.items(path) for field, path in paths.items()})


def _summary(left: Sequence[Missing]) -> str:
    return left[0].what + (f" and {len(left) - 1} more" if len(left) > 1 else "")


def _refusal(dial: Dial, host: str, door: Door) -> tuple[str, Door] | None:
    try:
        dial(host, door)
    except Unavailable:
        return host, door
    return None
