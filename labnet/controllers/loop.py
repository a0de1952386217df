"""The one loop that every reconciler runs in.

Mirrors of the API (informers) say that something changed; the reconciler says whose
business that is (keys); a worker takes one key at a time, has it looked at, and carries
the writes out. Whatever goes wrong, stale versions above all, is answered by looking
again a little later: the mirror has caught up by then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.client.api import Api
from labnet.client.informer import Informer
from labnet.client.views import Key
from labnet.client.workqueue import WorkQueue
from labnet.clock import Clock
from labnet.controllers.writes import Hands, Outcome, Say, Write
from labnet.errors import AlreadyExists, LabnetError, NotFound

log = logging.getLogger(__name__)

_REMEMBERED = 5.0  # seconds after which a key's last write is no longer kept in mind

KeysOf = Callable[[Object], Iterable[Key]]  # whose business an object is


class Mirrors:
    """One informer per kind, shared by all reconcilers. A context manager."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._informers: dict[str, Informer] = {}

    def of(self, resource: Resource) -> Informer:
        """Return the mirror of ``resource``; it runs once the context is entered."""
        path = f"{resource.api_version}/{resource.plural}"
        if path not in self._informers:
            self._informers[path] = Informer(self._api, resource)
        return self._informers[path]

    def __enter__(self) -> Mirrors:
        for informer in self._informers.values():
            informer.start()
        return self

    def __exit__(self, *_: object) -> None:
        for informer in self._informers.values():
            informer.stop()

    def wait_synced(self, stop: threading.Event) -> bool:
        """Wait until every mirror has its first list; False if ``stop`` comes before."""
        for informer in self._informers.values():
            while not informer.wait_synced(0.5):
                if stop.is_set():
                    return False
        return not stop.is_set()


class Reconciler(Protocol):
    """One controller: what it watches, and what it decides about one key."""

    name: str  # as its events say

    def watched(self) -> Mapping[Resource, KeysOf]:
        """Return, per kind, whose business a changed object is."""

    def look(self, key: Key) -> Outcome:
        """Return what is to be done about ``key`` now."""

    def wrote(self, key: Key, write: Write, answer: Object | None) -> Say | None:
        """Take note of a write that succeeded; return an event to record about it."""


class Loop:
    """A reconciler at work in a thread of its own."""

    def __init__(
        self, reconciler: Reconciler, mirrors: Mirrors, hands: Hands, clock: Clock
    ) -> None:
        self._reconciler = reconciler
        self._hands = replace(hands, component=reconciler.name)
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._last: dict[Key, float] = {}  # when a pass last wrote something
        self._thread = threading.Thread(target=self._run, name=reconciler.name, daemon=True)
        for resource, keys_of in reconciler.watched().items():
            mirrors.of(resource).on_change(self._asker(keys_of))

    def _asker(self, keys_of: KeysOf) -> Callable[[Object | None, Object | None], None]:
        def ask(old: Object | None, new: Object | None) -> None:
            for obj in (old, new):
                for key in keys_of(obj) if obj else ():
                    self._queue.add(key)

        return ask

    def start(self) -> None:
        """Start working; the mirrors have synced."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the pass under way."""
        self._queue.shut_down()
        if self._thread.is_alive():
            self._thread.join(5)

    def _run(self) -> None:
        while (key := self._queue.take()) is not None:
            self._pass(key)
            self._queue.done(key)

    def _early(self, key: Key, outcome: Outcome) -> float:
        """Return the seconds by which patient writes should still wait."""
        if not outcome.writes:
            return 0.0
        since = self._clock.monotonic() - self._last.get(key, float("-inf"))
        return outcome.patience - since

    def _pass(self, key: Key) -> None:
        try:
            outcome = self._reconciler.look(key)
            if (wait := self._early(key, outcome)) > 0:
                self._queue.add_after(key, wait)
                return
            self._hands.carry_out(
                outcome.writes, lambda write, answer: self._reconciler.wrote(key, write, answer)
            )
        except LabnetError as error:
            quiet = error.retryable or isinstance(error, NotFound | AlreadyExists)  # a stale view
            level = logging.DEBUG if quiet else logging.WARNING
            log.log(level, "%s %s: %s", self._reconciler.name, "/".join(key), error.message)
            self._queue.retry(key)
            return
        self._queue.forget(key)
        self._note(key, outcome)

    def _note(self, key: Key, outcome: Outcome) -> None:
        if outcome.writes:
            self._last[key] = self._clock.monotonic()
        elif key in self._last and self._clock.monotonic() - self._last[key] > _REMEMBERED:
            del self._last[key]
        if outcome.again is not None:
            self._queue.add_after(key, outcome.again)
