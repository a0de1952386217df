"""The mirror: what is there, what changed, and what survives broken watches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from labnet.api.resource import Resource
from labnet.client.api import Expired, WatchEvent
from labnet.client.fake import FakeApi
from labnet.client.informer import Informer
from labnet.client.kinds import CONFIGMAPS, PODS
from labnet.errors import Unavailable
from tests.conditions import eventually

Object = dict[str, Any]


def config(name: str, namespace: str = "default", **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


class Log:
    """What the informer told."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    def __call__(self, old: Object | None, new: Object | None) -> None:
        verb = "deleted" if new is None else "added" if old is None else "changed"
        obj = new or old
        assert obj is not None
        self.said.append((verb, obj["metadata"]["name"]))


class Broken(FakeApi):
    """An API whose watches end after ``lasts`` events, in a way the test chooses."""

    def __init__(self, lasts: int, error: Callable[[], Exception] | None = None) -> None:
        super().__init__()
        self._lasts = lasts
        self._error = error
        self.lists = 0

    def list(self, *args: Any, **named: Any) -> Any:
        self.lists += 1
        return super().list(*args, **named)

    def watch(self, resource: Resource, namespace: str = "", **named: Any) -> Any:
        return _Short(super().watch(resource, namespace, **named), self._lasts, self._error)


class _Short(AbstractContextManager[Iterator[WatchEvent]]):
    def __init__(self, inner: Any, lasts: int, error: Callable[[], Exception] | None) -> None:
        self._inner, self._lasts, self._error = inner, lasts, error

    def __enter__(self) -> Iterator[WatchEvent]:
        return self._events(self._inner.__enter__())

    def __exit__(self, *_: object) -> None:
        self._inner.__exit__(None, None, None)

    def _events(self, events: Iterator[WatchEvent]) -> Iterator[WatchEvent]:
        for _ in range(self._lasts):
            event = next(events, None)
            if event is None:
                return
            yield event
        if self._error:
            raise self._error()


def test_it_lists_what_is_there_and_watches_what_comes() -> None:
    api, log = FakeApi(), Log()
    api.create(CONFIGMAPS, config("before"))
    with Informer(api, CONFIGMAPS, log) as mirror:
        assert mirror.wait_synced(5)
        api.create(CONFIGMAPS, config("after"))
        api.patch(CONFIGMAPS, "before", "default", {"data": {"a": "1"}})
        api.delete(CONFIGMAPS, "after", "default")
        eventually(lambda: len(log.said) == 4)
        assert log.said == [
            ("added", "before"),
            ("added", "after"),
            ("changed", "before"),
            ("deleted", "after"),
        ]
        assert mirror.get("after", "default") is None
        found = mirror.get("before", "default")
        assert found is not None
        assert found["data"] == {"a": "1"}


def test_objects_of_one_namespace_or_all() -> None:
    api = FakeApi()
    api.create(CONFIGMAPS, config("a"))
    api.create(CONFIGMAPS, config("a", "shop"))
    with Informer(api, CONFIGMAPS) as mirror:
        assert mirror.wait_synced(5)
        assert len(mirror.objects()) == 2
        assert [o["metadata"]["namespace"] for o in mirror.objects("shop")] == ["shop"]
        assert mirror.objects("nowhere") == []


def test_a_selector_limits_the_mirror_and_what_leaves_it_is_deleted() -> None:
    api, log = FakeApi(), Log()
    api.create(PODS, {**config("a"), "spec": {"nodeName": "node1"}})
    api.create(PODS, {**config("b"), "spec": {"nodeName": "node2"}})
    with Informer(api, PODS, log, fields="spec.nodeName=node1") as mirror:
        assert mirror.wait_synced(5)
        assert log.said == [("added", "a")]
        api.delete(PODS, "a", "default", grace_seconds=0)
        eventually(lambda: log.said[-1] == ("deleted", "a"))


def test_it_knows_how_far_it_has_got() -> None:
    api = FakeApi()
    with Informer(api, CONFIGMAPS) as mirror:
        assert mirror.wait_synced(5)
        made = api.create(CONFIGMAPS, config("a"))
        version = made["metadata"]["resourceVersion"]
        eventually(lambda: mirror.reached(version))
        assert not mirror.reached(str(int(version) + 1))


def test_a_watch_that_ends_or_breaks_goes_on_where_it_stopped() -> None:
    for error in (None, lambda: Unavailable("cut")):
        api, log = Broken(lasts=1, error=error), Log()
        with Informer(api, CONFIGMAPS, log, first_pause=0.001) as mirror:
            assert mirror.wait_synced(5)
            for number in range(5):
                api.create(CONFIGMAPS, config(f"c{number}"))
            eventually(lambda: len(log.said) == 5)  # noqa: B023
        assert [name for _, name in log.said] == [f"c{i}" for i in range(5)]
        assert api.lists == 1


def test_an_expired_watch_lists_again_and_tells_only_the_differences() -> None:
    api, log = Broken(lasts=1, error=lambda: Expired("too old")), Log()
    api.create(CONFIGMAPS, config("stays"))
    api.create(CONFIGMAPS, config("goes"))
    with Informer(api, CONFIGMAPS, log, first_pause=0.05) as mirror:
        assert mirror.wait_synced(5)
        api.create(CONFIGMAPS, config("seen"))
        eventually(lambda: ("added", "seen") in log.said)
        api.delete(CONFIGMAPS, "goes", "default")
        api.create(CONFIGMAPS, config("new"))
        eventually(lambda: ("added", "new") in log.said and ("deleted", "goes") in log.said)
    assert log.said.count(("added", "stays")) == 1


def test_history_the_server_has_forgotten_is_listed_anew() -> None:
    api, log = Broken(lasts=1), Log()
    with Informer(api, CONFIGMAPS, log, first_pause=0.1) as mirror:
        assert mirror.wait_synced(5)
        api.create(CONFIGMAPS, config("a"))
        eventually(lambda: len(log.said) == 1)
        api.create(CONFIGMAPS, config("b"))
        api.create(CONFIGMAPS, config("c"))
        api.forget_history()
        eventually(lambda: len(log.said) == 3)


def test_stopping_ends_the_thread_in_the_middle_of_a_watch() -> None:
    mirror = Informer(FakeApi(), CONFIGMAPS)
    mirror.start()
    assert mirror.wait_synced(5)
    stopper = threading.Thread(target=mirror.stop)
    stopper.start()
    stopper.join(5)
    assert not stopper.is_alive()
    assert "informer-configmaps" not in [t.name for t in threading.enumerate()]
