"""Events: what ``kubectl describe pod`` shows at its end.

An event is worth telling and not worth waiting for. They go through a queue and one
thread, at most 25 a second after a burst (as the real kubelet's ``eventRecordQPS``),
so that a hundred starting pods have the API server to themselves; the same thing said
again within ten minutes raises the first one's count. When the queue is full the
newest are dropped, never the pods' progress.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Condition
from typing import Any

from labnet.client.api import Api
from labnet.client.kinds import EVENTS
from labnet.clock import Clock, rfc3339
from labnet.errors import LabnetError

QUEUE_MAX = 2000
PER_SECOND, BURST = 25.0, 30.0
FORGET_AFTER = 600.0
KNOWN_MAX = 500


@dataclass(frozen=True, slots=True)
class Subject:
    """What an event is about."""

    kind: str
    namespace: str  # "" for a Node
    name: str
    uid: str
    field: str = ""  # "spec.containers{nginx}"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened; ``type`` is Normal or Warning."""

    subject: Subject
    type: str
    reason: str
    message: str


def event_object(event: Event, node: str, name: str, now: str) -> dict[str, Any]:
    """Return the v1 Event."""
    subject = event.subject
    namespace = subject.namespace or "default"
    involved = {"kind": subject.kind, "name": subject.name, "uid": subject.uid, "apiVersion": "v1"}
    if subject.namespace:
        involved["namespace"] = subject.namespace
    if subject.field:
        involved["fieldPath"] = subject.field
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": involved,
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": "kubelet", "host": node},
        "reportingComponent": "kubelet",
        "reportingInstance": node,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


@dataclass(slots=True)
class _Told:
    name: str
    count: int
    at: float


class Recorder:
    """Tells the API server of events, from one thread. ``record`` never blocks."""

    def __init__(self, api: Api, node: str, clock: Clock) -> None:
        self._api, self._node, self._clock = api, node, clock
        self._queue: deque[Event] = deque()
        self._changed = Condition()
        self._told: dict[Event, _Told] = {}
        self._budget, self._refilled = BURST, clock.monotonic()
        self._serial = 0
        self._closed = False

    def record(self, event: Event) -> None:
        """Have ``event`` told some time."""
        with self._changed:
            if len(self._queue) < QUEUE_MAX:
                self._queue.append(event)
                self._changed.notify()

    def run(self) -> None:
        """Tell events until closed."""
        while (event := self._next()) is not None:
            self._tell(event)

    def flush(self) -> None:
        """Tell everything that waits, at once (tests; the end of a kubelet)."""
        while self._queue:
            self._tell(self._queue.popleft())

    def close(self) -> None:
        """Make :meth:`run` return."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _next(self) -> Event | None:
        with self._changed:
            while not self._closed:
                pause = self._pause()
                if self._queue and pause <= 0:
                    self._budget -= 1
                    return self._queue.popleft()
                self._changed.wait(pause if self._queue else None)
            return None

    def _pause(self) -> float:
        """Return the seconds until the next event may go."""
        now = self._clock.monotonic()
        self._budget = min(BURST, self._budget + (now - self._refilled) * PER_SECOND)
        self._refilled = now
        return 0.0 if self._budget >= 1 else (1 - self._budget) / PER_SECOND

    def _tell(self, event: Event) -> None:
        now, told = self._clock.monotonic(), self._told.get(event)
        try:
            if told is None or now - told.at > FORGET_AFTER or not self._again(event, told):
                self._first(event)
        except LabnetError:
            return  # an event that nobody hears is no reason to stop
        self._told[event].at = now
        if len(self._told) > KNOWN_MAX:
            del self._told[min(self._told, key=lambda e: self._told[e].at)]

    def _first(self, event: Event) -> None:
        self._serial += 1
        stamp = int(self._clock.now().timestamp() * 1_000_000_000) + self._serial
        name = f"{event.subject.name}.{stamp:x}"
        body = event_object(event, self._node, name, rfc3339(self._clock.now()))
        self._api.create(EVENTS, body)
        self._told[event] = _Told(name, 1, 0.0)

    def _again(self, event: Event, told: _Told) -> bool:
        patch = {"count": told.count + 1, "lastTimestamp": rfc3339(self._clock.now())}
        try:
            self._api.patch(EVENTS, told.name, event.subject.namespace or "default", patch)
        except LabnetError:
            return False  # it has expired
        told.count += 1
        return True
