"""One kind of object, mirrored: listed once, then kept up to date by a watch.

A loop reads the mirror as often as it likes without asking the API server. A watch that
ends (the server restarts, a link is cut) is taken up again where it stopped; when the
server has forgotten that place (410) the mirror is listed anew, and what changed
meanwhile is told as if it had been watched.

Objects in the mirror are shared: whoever wants to change one copies it first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.client.api import Api, Expired, Listed, WatchEvent
from labnet.errors import LabnetError

FIRST_PAUSE = 0.1  # seconds before a broken watch is taken up again
LONGEST_PAUSE = 5.0
EAGER_PAUSE = 0.25  # the longest before the first list: somebody is waiting for it

OnChange = Callable[[Object | None, Object | None], None]

log = logging.getLogger(__name__)


class Informer:
    """The mirror of ``resource`` (of one namespace, or of what two selectors mean).

    ``on_change(old, new)`` is called from the informer's thread for every change; None
    stands for "not there". It should only note what to look at. A context manager:
    entering starts the thread.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        on_change: OnChange | None = None,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self._api = api
        self._resource = resource
        self._scope = {"namespace": namespace, "labels": labels, "fields": fields}
        self._handlers: list[OnChange] = [on_change] if on_change else []
        self._first_pause = first_pause
        self._objects: dict[str, dict[str, Object]] = {}  # namespace -> name -> object
        self._version = ""  # "": to be listed
        self._lock = threading.Lock()
        self._interrupted = False  # the outage under way is in the log
        self._synced = threading.Event()
        self._stopped = threading.Event()
        self._open: AbstractContextManager[Any] | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"informer-{resource.plural}", daemon=True
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def on_change(self, handler: OnChange) -> None:
        """Add a handler; before ``start``."""
        self._handlers.append(handler)

    def start(self) -> None:
        """Start listing and watching."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch and the thread."""
        with self._lock:
            self._stopped.set()
            if self._open is not None:
                self._open.__exit__(None, None, None)
        self._thread.join(5)  # a server that takes a request and says nothing keeps it longer

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in."""
        return self._synced.is_set()

    def wait_synced(self, timeout: float | None = None) -> bool:
        """Wait for the first list; False if it is not in after ``timeout`` seconds."""
        return self._synced.wait(timeout)

    def get(self, name: str, namespace: str = "") -> Object | None:
        """Return one object of the mirror, or None."""
        return self._objects.get(namespace, {}).get(name)

    def objects(self, namespace: str | None = None) -> list[Object]:
        """Return the objects of one namespace, or all."""
        with self._lock:
            if namespace is not None:
                return list(self._objects.get(namespace, {}).values())
            return [obj for group in self._objects.values() for obj in group.values()]

    def reached(self, version: str) -> bool:
        """Whether the mirror shows everything of its kind up to this resourceVersion."""
        return int(self._version or 0) >= int(version or 0)

    def _run(self) -> None:
        pause = self._first_pause
        while not self._stopped.is_set():
            before = self._version
            try:
                self._pass()
            except Expired:
                self._version = ""
            except LabnetError as error:
                level = logging.DEBUG if self._interrupted else logging.WARNING
                log.log(level, "watch of %s: %s", self._resource.plural, error.message)
                self._interrupted = True
            if self._version != before:
                pause = self._first_pause
            self._stopped.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE if self.has_synced else EAGER_PAUSE)

    def _pass(self) -> None:
        """List if need be, then follow one watch to its end."""
        if not self._version:
            self._replace(self._api.list(self._resource, **self._scope))
            self._synced.set()
        watch = self._api.watch(self._resource, version=self._version, **self._scope)
        with self._lock:
            if self._stopped.is_set():
                return
            self._open = watch
        with watch as events:
            self._interrupted = False
            for event in events:
                self._take(event)

    def _replace(self, listed: Listed) -> None:
        """Make the mirror equal to a list, and tell the differences."""
        found: dict[str, dict[str, Object]] = {}
        for obj in listed.items:
            metadata = obj["metadata"]
            found.setdefault(metadata.get("namespace", ""), {})[metadata["name"]] = _trimmed(obj)
        before = {_key(obj): obj for obj in self.objects()}
        with self._lock:
            self._objects = found
            self._version = listed.version
        for obj in self.objects():
            self._tell(before.pop(_key(obj), None), obj)
        for gone in before.values():
            self._tell(gone, None)

    def _take(self, event: WatchEvent) -> None:
        """Carry one event of the watch into the mirror."""
        metadata = event.object["metadata"]
        if event.type == "BOOKMARK":
            self._version = metadata["resourceVersion"]
            return
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        new = None if event.type == "DELETED" else _trimmed(event.object)
        with self._lock:
            group = self._objects.setdefault(namespace, {})
            old = group.pop(name, None) if new is None else group.get(name)
            if new is not None:
                group[name] = new
            self._version = metadata["resourceVersion"]
        self._tell(old, new)

    def _tell(self, old: Object | None, new: Object | None) -> None:
        if old and new and _version(old) == _version(new):
            return
        if old is None and new is None:
            return
        for handler in self._handlers:
            handler(old, new)


def _version(obj: Object) -> str:
    return str(obj["metadata"].get("resourceVersion", ""))


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _trimmed(obj: Object) -> Object:
    """Drop what no loop reads and what is half of many an object: who wrote which field."""
    obj["metadata"].pop("managedFields", None)
    return obj
