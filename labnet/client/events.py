"""Kubernetes Events: what a component tells people about an object.

``kubectl describe`` and ``kubectl get events`` show them. The same event again raises
``count`` instead of making another object; a component that has much to say about one
object falls silent after 25 events and may say one more every five minutes (client-go's
limits). Events are a courtesy: they are written by a thread of their own a moment later,
so that what they tell about goes first, and one that cannot be written is dropped.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from time import monotonic
from typing import Any, Self

from labnet.api.meta import Object
from labnet.client.api import Api
from labnet.client.kinds import EVENTS
from labnet.clock import Clock, SystemClock, rfc3339
from labnet.errors import LabnetError, NotFound

BURST = 25  # events about one object before the limit bites
REFILL = 300.0  # seconds for one more
_REMEMBERED = 2048  # events and objects kept in mind
DELAY = 0.25  # seconds between an event and its writing
_WAITING = 1000  # events not written yet; further ones are dropped

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Said:
    """One event: about which object (a reference), what, by whom."""

    about: tuple[tuple[str, str], ...]
    namespace: str
    type: str  # Normal or Warning
    reason: str
    message: str
    component: str
    host: str


def reference(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the ObjectReference to ``obj``."""
    metadata = obj["metadata"]
    found = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "name": metadata["name"],
        "namespace": metadata.get("namespace"),
        "resourceVersion": metadata.get("resourceVersion"),
        "uid": metadata.get("uid"),
    }
    return {key: value for key, value in found.items() if value}


def event(said: Said, name: str, now: str) -> Object:
    """Return the Event object for something said the first time."""
    source = {"component": said.component} | ({"host": said.host} if said.host else {})
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": said.namespace},
        "involvedObject": dict(said.about),
        "type": said.type,
        "reason": said.reason,
        "message": said.message,
        "source": source,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "reportingComponent": said.component,
        "reportingInstance": said.host,
    }


class Recorder:
    """Writes the events of one component; a context manager, which ends its thread."""

    def __init__(
        self,
        api: Api,
        component: str,
        host: str = "",
        clock: Clock | None = None,
        *,
        delay: float = DELAY,
    ) -> None:
        self._api = api
        self._component = component
        self._host = host
        self._clock = clock or SystemClock()
        self._delay = delay
        self._queue: queue.Queue[tuple[float, Said] | None] = queue.Queue(_WAITING)
        self._ending = threading.Event()
        self._number = count()
        self._written: OrderedDict[Said, tuple[str, int]] = OrderedDict()
        self._budgets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._queue.put(None)
        self._thread.join(5)

    def normal(self, obj: Mapping[str, Any], reason: str, message: str) -> None:
        """Say that something went as it should."""
        self.say(obj, "Normal", reason, message)

    def warning(self, obj: Mapping[str, Any], reason: str, message: str) -> None:
        """Say that something is wrong."""
        self.say(obj, "Warning", reason, message)

    def say(
        self, obj: Mapping[str, Any], kind: str, reason: str, message: str, *, component: str = ""
    ) -> None:
        """Queue an event about ``obj``; never waits. ``component``: in another's name."""
        about = reference(obj)
        namespace = about.get("namespace", "default")
        about.pop("resourceVersion", None)  # the same thing said of a newer version is the same
        facts = tuple(sorted(about.items()))
        who = component or self._component
        said = Said(facts, namespace, kind, reason, message, who, self._host)
        try:
            self._queue.put_nowait((monotonic() + self._delay, said))
        except queue.Full:
            log.debug("event dropped: %s", message)

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            due, said = entry
            self._ending.wait(max(0.0, due - monotonic()))
            if not self._allowed(said):
                continue
            try:
                self._write(said)
            except LabnetError as error:
                log.debug("event not written: %s", error.message)

    def _allowed(self, said: Said) -> bool:
        """Take one from the budget of the object, if there is one."""
        now = self._clock.monotonic()
        about = repr(said.about)
        left, at = self._budgets.pop(about, (float(BURST), now))
        left = min(float(BURST), left + (now - at) / REFILL)
        allowed = left >= 1
        self._budgets[about] = (left - 1 if allowed else left, now)
        _trim(self._budgets)
        return allowed

    def _write(self, said: Said) -> None:
        now = rfc3339(self._clock.now())
        name, seen = self._written.pop(said, (self._name(said), 0))
        if seen:
            try:
                self._repeat(said, name, seen + 1, now)
            except NotFound:  # events are cleared away after a while
                seen = 0
        if not seen:
            self._api.create(EVENTS, event(said, name, now))
        self._written[said] = (name, seen + 1)
        _trim(self._written)

    def _repeat(self, said: Said, name: str, times: int, now: str) -> None:
        patch = {"count": times, "lastTimestamp": now}
        self._api.patch(EVENTS, name, said.namespace, patch)

    def _name(self, said: Said) -> str:
        """Return ``<object>.<nanoseconds, hexadecimal>``, as client-go names events.

        Whoever lists events gets them by name, so those of one second stay in order. The
        clock has microseconds; a counter fills the rest.
        """
        moment = int(self._clock.now().timestamp() * 1e6) * 1000 + next(self._number) % 1000
        return f"{dict(said.about)['name']}.{moment:016x}"


def _trim(remembered: OrderedDict[Any, Any]) -> None:
    while len(remembered) > _REMEMBERED:
        remembered.popitem(last=False)
