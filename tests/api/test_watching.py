"""Watches: how they begin, what they tell, how they end; and that nobody waits for them."""

from __future__ import annotations

import json
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest

from labnet.apiserver import streams
from labnet.store.tls import Tls
from tests.api.server import TOKEN, RunningServer, config_map, pod
from tests.conditions import eventually

_MAPS = "/api/v1/namespaces/default/configmaps"
_PODS = "/api/v1/namespaces/default/pods"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def test_without_a_version_a_watch_begins_with_what_is_there(api: RunningServer) -> None:
    api.post(_MAPS, config_map("a"))
    watch = api.watch(f"{_MAPS}?watch=true")
    assert watch.take(1) == [("ADDED", "a")]
    api.post(_MAPS, config_map("b"))
    api.request("DELETE", f"{_MAPS}/a")
    assert watch.take(2) == [("ADDED", "b"), ("DELETED", "a")]


def test_a_watch_goes_on_from_the_version_it_names(api: RunningServer) -> None:
    api.post(_MAPS, config_map("a"))
    version = api.get(_MAPS).json["metadata"]["resourceVersion"]
    api.post(_MAPS, config_map("b"))
    api.request("DELETE", f"{_MAPS}/b")
    watch = api.watch(f"{_MAPS}?watch=1&resourceVersion={version}")
    assert watch.take(2) == [("ADDED", "b"), ("DELETED", "b")]


def test_a_deletion_carries_the_version_of_the_deletion(api: RunningServer) -> None:
    created = api.post(_MAPS, config_map("a")).json["metadata"]["resourceVersion"]
    api.request("DELETE", f"{_MAPS}/a")
    watch = api.watch(f"{_MAPS}?watch=1&resourceVersion={created}")
    deleted = next(iter(watch))["object"]["metadata"]["resourceVersion"]
    assert int(deleted) > int(created)


def test_a_version_that_is_not_kept_any_more_is_expired(
    api: RunningServer, tls: Tls, tmp_path: Path
) -> None:
    api.post(_MAPS, config_map("a"))
    with RunningServer(api.store, tls, tmp_path) as restarted:  # it starts with no history
        answer = restarted.get(f"{_MAPS}?watch=1&resourceVersion=1")
    assert (answer.status, answer.json["reason"]) == (410, "Expired")
    assert answer.json["message"].startswith("too old resource version: 1 (")


def test_a_watch_list_says_where_the_initial_objects_end(api: RunningServer) -> None:
    api.post(_MAPS, config_map("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = iter(api.watch(f"{_MAPS}?watch=1&{query}"))
    assert next(events)["type"] == "ADDED"
    mark = next(events)
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["kind"] == "ConfigMap"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    refused = api.get(f"{_MAPS}?watch=1&sendInitialEvents=true")
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")


def test_objects_enter_and_leave_a_selection(api: RunningServer) -> None:
    watch = api.watch(f"{_PODS}?watch=1&labelSelector=app%3Dx")
    api.post(_PODS, pod("web", app="y"))

    def label(value: str) -> None:
        patch = {"metadata": {"labels": {"app": value}}}
        api.request("PATCH", f"{_PODS}/web", patch, Content_Type="application/merge-patch+json")

    for value in ("x", "y"):
        label(value)
    api.post(_PODS, pod("other", app="x"))
    assert watch.take(3) == [("ADDED", "web"), ("DELETED", "web"), ("ADDED", "other")]


def test_a_table_watch_sends_rows(api: RunningServer) -> None:
    api.post(_PODS, pod("a"))
    watch = iter(api.watch(f"{_PODS}?watch=1", Accept=_TABLE))
    first = next(watch)["object"]
    assert first["kind"] == "Table"
    assert first["columnDefinitions"]
    api.post(_PODS, pod("b"))
    second = next(watch)["object"]
    assert second["rows"][0]["cells"][0] == "b"
    assert not second.get("columnDefinitions")


def test_a_watch_ends_after_its_timeout(api: RunningServer) -> None:
    api.post(_MAPS, config_map("a"))
    assert api.get(f"{_MAPS}?watch=1&timeoutSeconds=soon").status == 400
    watch = api.watch(f"{_MAPS}?watch=1&timeoutSeconds=1")
    assert [event["type"] for event in watch] == ["ADDED"]


def test_watchers_of_other_namespaces_and_kinds_hear_nothing(api: RunningServer) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    watch = api.watch("/api/v1/namespaces/other/configmaps?watch=1")
    api.post(_MAPS, config_map("a"))
    api.post(_PODS, pod("a"))
    api.post("/api/v1/namespaces/other/configmaps", config_map("b"))
    assert watch.take(1) == [("ADDED", "b")]


def test_three_hundred_watches_starve_nobody_and_all_hear(api: RunningServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        watches = list(pool.map(lambda _: api.watch(f"{_MAPS}?watch=1"), range(300)))
    assert api.get(_MAPS).status == 200
    assert api.post(_MAPS, config_map("a")).status == 201
    assert all(watch.take(1) == [("ADDED", "a")] for watch in watches)


def test_clients_that_connect_and_say_nothing_cost_no_thread(api: RunningServer) -> None:
    silent = [socket.create_connection(("127.0.0.1", api.port)) for _ in range(40)]
    context = ssl.create_default_context(cafile=api.tls.ca)
    silent += [
        context.wrap_socket(
            socket.create_connection(("127.0.0.1", api.port)), server_hostname="127.0.0.1"
        )
        for _ in range(40)
    ]
    assert api.get("/version").status == 200
    for sock in silent:
        sock.close()


def test_a_client_that_does_not_read_is_cut_off(
    api: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "QUEUE_LIMIT", 50_000)
    context = ssl.create_default_context(cafile=api.tls.ca)
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", api.port))
    with context.wrap_socket(raw, server_hostname="127.0.0.1") as sock:
        head = f"GET {_MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        sock.sendall(head.encode())
        assert sock.recv(15) == b"HTTP/1.1 200 OK"
        data = "x" * 500_000
        deadline = monotonic() + 20
        n = 0
        while len(api.server.parts.streams) and monotonic() < deadline:
            assert api.post(_MAPS, config_map(f"m{n}", key=data)).status == 201
            n += 1
        assert len(api.server.parts.streams) == 0


def test_a_watcher_that_hangs_up_is_forgotten(api: RunningServer) -> None:
    watch = api.watch(f"{_MAPS}?watch=1")
    watch.close()
    eventually(lambda: api.get("/version") and len(api.server.parts.streams) == 0)


def test_events_are_lines_of_json(api: RunningServer) -> None:
    watch = api.watch(f"{_MAPS}?watch=1")
    api.post(_MAPS, config_map("a"))
    line = watch.response.readline()
    assert line.endswith(b"\n")
    assert json.loads(line)["object"]["kind"] == "ConfigMap"


def test_bookmarks_say_how_far_a_quiet_watch_has_come(
    api: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "TICK", 0.05)
    watch = api.watch(f"{_MAPS}?watch=1&allowWatchBookmarks=true")
    latest = api.post(_PODS, pod("elsewhere")).json["metadata"]["resourceVersion"]
    for event in watch:
        assert event["type"] == "BOOKMARK"
        assert event["object"]["kind"] == "ConfigMap"
        if event["object"]["metadata"]["resourceVersion"] == latest:
            break
