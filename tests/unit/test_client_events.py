"""Events: written once, counted when repeated, and not too many."""

from __future__ import annotations

from typing import Any

from labnet.client.events import BURST, Recorder
from labnet.client.fake import FakeApi
from labnet.client.kinds import EVENTS
from labnet.clock import FakeClock
from tests.conditions import eventually

Object = dict[str, Any]
POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7"},
}


def test_an_event_names_object_reason_and_who_says_it() -> None:
    api = FakeApi()
    with Recorder(api, "kubelet", "node1", delay=0) as recorder:
        recorder.normal(POD, "Started", "Started container web")
        eventually(lambda: bool(api.list(EVENTS).items))
    [event] = api.list(EVENTS, "shop", fields="involvedObject.name=web").items
    assert event["metadata"]["name"].startswith("web.")
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web",
        "namespace": "shop",
        "uid": "u1",
    }
    assert (event["type"], event["reason"], event["count"]) == ("Normal", "Started", 1)
    assert event["source"] == {"component": "kubelet", "host": "node1"}


def test_the_same_event_again_is_counted() -> None:
    api, clock = FakeApi(), FakeClock()
    with Recorder(api, "kubelet", clock=clock, delay=0) as recorder:
        for version in ("7", "8", "9"):
            metadata = {**POD["metadata"], "resourceVersion": version}
            recorder.warning({**POD, "metadata": metadata}, "BackOff", "Back-off")
    [event] = api.list(EVENTS).items
    assert (event["type"], event["count"]) == ("Warning", 3)


def test_events_of_one_moment_are_listed_in_the_order_they_were_told() -> None:
    api, clock = FakeApi(), FakeClock()
    told = ["Scheduled", "Pulled", "Created", "Started"]
    with Recorder(api, "kubelet", clock=clock, delay=0) as recorder:
        for reason in told:
            recorder.normal(POD, reason, "")
    by_name = sorted(api.list(EVENTS).items, key=lambda event: str(event["metadata"]["name"]))
    assert [event["reason"] for event in by_name] == told


def test_a_counted_event_that_was_cleared_away_starts_anew() -> None:
    api = FakeApi()
    with Recorder(api, "kubelet", delay=0) as recorder:
        recorder.normal(POD, "Pulled", "x")
        eventually(lambda: bool(api.list(EVENTS).items))
        api.delete_collection(EVENTS, "shop")
        recorder.normal(POD, "Pulled", "x")
    assert [e["count"] for e in api.list(EVENTS).items] == [1]


def test_too_many_events_about_one_object_are_dropped_until_time_has_passed() -> None:
    api, clock = FakeApi(), FakeClock()
    with Recorder(api, "kubelet", clock=clock, delay=0) as recorder:
        for number in range(BURST + 10):
            recorder.normal(POD, "Noise", f"{number}")
        eventually(lambda: len(api.list(EVENTS).items) == BURST)
        clock.advance(300)
        recorder.normal(POD, "Noise", "later")
        eventually(lambda: len(api.list(EVENTS).items) == BURST + 1)


def test_events_about_things_without_a_namespace_are_in_default() -> None:
    api = FakeApi()
    node: Object = {"kind": "Node", "metadata": {"name": "node1", "uid": "n"}}
    with Recorder(api, "node-controller") as recorder:
        recorder.normal(node, "NodeNotReady", "x")
    [event] = api.list(EVENTS, "default").items
    assert event["involvedObject"]["name"] == "node1"
