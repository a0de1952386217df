"""What a reconciler decides: writes as values, and when to look again.

``carry_out`` does them in order. Runs of creations and deletions go out several at a
time, in batches that double (4, 8, 16 …) as long as they succeed: a hundred pods are
there quickly, and a hundred refusals are four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.client.api import Api
from labnet.client.events import Recorder
from labnet.client.views import key_of
from labnet.errors import LabnetError, NotFound


@dataclass(frozen=True, slots=True)
class Create:
    """Make ``object``."""

    resource: Resource
    object: Object


@dataclass(frozen=True, slots=True)
class Update:
    """Replace an object, or the part of it that ``subresource`` names."""

    resource: Resource
    object: Object
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Patch:
    """Change an object by a merge patch."""

    resource: Resource
    namespace: str
    name: str
    patch: Any
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete one very object; that it is gone already is fine."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    grace_seconds: int | None = None
    propagation: str = "Background"


@dataclass(frozen=True, slots=True)
class Clear:
    """Delete every object of a kind in a namespace."""

    resource: Resource
    namespace: str


@dataclass(frozen=True, slots=True)
class Say:
    """Record an event about an object."""

    about: Object
    reason: str
    message: str
    type: str = "Normal"


_FIRST_BATCH = 4

Write = Create | Update | Patch | Remove | Clear | Say
Wrote = Callable[[Write, Object | None], Say | None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The writes of one pass, and in how many seconds another is due (None: when told).

    ``patience``: seconds these writes may wait after the last ones. What only reports
    (a status, a list of endpoints) need not be written for each of a hundred pods.
    """

    writes: tuple[Write, ...] = ()
    again: float | None = None
    patience: float = 0.0


def patience_for(pods: int) -> float:
    """Return how long a report about so many pods may wait: 2 ms each, 0.2 s at most.

    Never less than 30 ms: a report that follows hard on the last one is often outdated
    by the next, and what pods wait for goes first.
    """
    return min(0.2, 0.03 + 0.002 * pods)


def remove(resource: Resource, obj: Object, grace_seconds: int | None = None) -> Remove:
    """Return the deletion of ``obj``."""
    namespace, name = key_of(obj)
    return Remove(resource, namespace, name, obj["metadata"]["uid"], grace_seconds)


@dataclass(frozen=True, slots=True)
class Hands:
    """What carrying out takes: the API, events, threads for runs of writes; in whose name."""

    api: Api
    recorder: Recorder
    pool: Executor
    component: str = ""

    def carry_out(self, writes: Sequence[Write], wrote: Wrote) -> None:
        """Do ``writes`` in order; raise what fails first.

        ``wrote`` is told each one's answer and may return an event to record about it.
        """
        for kind, run in groupby(writes, key=type):
            group = list(run)
            if kind in (Create, Remove) and len(group) > 1:
                self._together(group, wrote)
            else:
                for write in group:
                    self._tell(wrote(write, self._do(write)))

    def _together(self, writes: Sequence[Write], wrote: Wrote) -> None:
        for batch in _doubling(writes):
            failures: list[LabnetError] = []
            for write, result in zip(batch, self.pool.map(self._tried, batch), strict=True):
                if isinstance(result, LabnetError):
                    failures.append(result)
                else:
                    self._tell(wrote(write, result))
            if failures:
                raise failures[0]

    def _tell(self, said: Say | None) -> None:
        if said is not None:
            self.recorder.say(
                said.about, said.type, said.reason, said.message, component=self.component
            )

    def _tried(self, write: Write) -> Object | LabnetError | None:
        try:
            return self._do(write)
        except LabnetError as error:
            return error

    def _do(self, write: Write) -> Object | None:
        match write:
            case Create(resource, obj):
                return self.api.create(resource, obj)
            case Update(resource, obj, subresource):
                return self.api.update(resource, obj, subresource)
            case Patch(resource, namespace, name, patch, subresource):
                return self.api.patch(resource, name, namespace, patch, subresource=subresource)
            case Clear(resource, namespace):
                self.api.delete_collection(resource, namespace)
            case Say():
                self._tell(write)
            case Remove():
                return self._remove(write)
        return None

    def _remove(self, write: Remove) -> Object | None:
        try:
            return self.api.delete(
                write.resource,
                write.name,
                write.namespace,
                uid=write.uid,
                grace_seconds=write.grace_seconds,
                propagation=write.propagation,
            )
        except NotFound:
            return None


def _doubling(writes: Sequence[Write]) -> Iterator[Sequence[Write]]:
    start, size = 0, _FIRST_BATCH
    while start < len(writes):
        yield writes[start : start + size]
        start, size = start + size, size * 2
