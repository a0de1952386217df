"""Waiting: one deadline, early ends, and an explanation instead of a timeout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from labnet.clock import FakeClock
from labnet.errors import LabnetError, Unavailable
from labnet.lab.readiness import Door
from labnet.lab.waiting import Waiting
from labnet.sandbox.spec import Exit, Process

DOOR = Door("default/web", "10.11.0.1", 80)


class Impatient(FakeClock):
    """A clock on which every look lets a second pass."""

    def monotonic(self) -> float:
        self.advance(1.0)
        return super().monotonic()


class Server:
    """An API server that becomes ready after some questions."""

    def __init__(self, ready_after: int = 0, node_ready: str = "True") -> None:
        self.asked: list[str] = []
        self._ready_after = ready_after
        self._node_ready = node_ready

    def get(self, path: str) -> object:
        self.asked.append(path)
        if len(self.asked) <= self._ready_after:
            raise Unavailable("connection refused")
        return {}

    def items(self, path: str) -> Sequence[Mapping[str, Any]]:
        self.asked.append(path)
        if path != "/api/v1/nodes":
            return ()
        condition = {"type": "Ready", "status": self._node_ready, "message": "no network yet"}
        return [{"metadata": {"name": "node1"}, "status": {"conditions": [condition]}}]


def silent(_: str) -> None:
    """Report to nobody."""


def test_the_api_server_is_asked_until_it_answers() -> None:
    server = Server(ready_after=2)

    Waiting(FakeClock(), 60).until_api_answers(server, lambda: (), silent)

    assert server.asked == ["/readyz"] * 3


def test_a_component_that_keeps_ending_ends_the_waiting() -> None:
    ended = Exit(1, 0, "")
    failing = Process("etcd", "component", "control-plane", 0, "", exit=ended, restarts=3)

    with pytest.raises(LabnetError, match="etcd ended 3 times, last with code 1") as error:
        Waiting(FakeClock(), 60).until_api_answers(Server(9), lambda: [failing], silent)

    assert error.value.hint == "labnet logs etcd"


def test_an_api_server_that_never_answers_is_given_up() -> None:
    with pytest.raises(LabnetError, match="does not answer: connection refused"):
        Waiting(Impatient(), 1).until_api_answers(Server(99), lambda: (), silent)


def test_pods_are_not_read_while_a_node_is_not_ready() -> None:
    server = Server(node_ready="False")

    with pytest.raises(LabnetError, match="node node1: no network yet"):
        Waiting(Impatient(), 3).until_ready(server, ["node1"], silent)

    assert set(server.asked) == {"/api/v1/nodes", "/api/v1/events"}


def test_a_ready_cluster_is_returned_as_it_was_seen() -> None:
    cluster = Waiting(FakeClock(), 60).until_ready(Server(), ["node1"], silent)

    assert [node["metadata"]["name"] for node in cluster.nodes] == ["node1"]


def test_every_door_is_tried_from_every_host_until_all_are_open() -> None:
    tried: list[str] = []

    def dial(host: str, door: Door) -> None:
        tried.append(host)
        if host == "node2" and tried.count("node2") == 1:
            raise Unavailable("refused")

    Waiting(FakeClock(), 60).until_answering([DOOR], ["node1", "node2"], dial, silent)

    assert sorted(tried) == ["node1", "node2", "node2"]


def test_a_door_that_stays_shut_names_service_address_and_host() -> None:
    def dial(host: str, door: Door) -> None:
        raise Unavailable("refused")

    with pytest.raises(
        LabnetError, match=r"default/web does not answer on 10\.11\.0\.1:80 from"
    ) as e:
        Waiting(Impatient(), 1).until_answering([DOOR], ["node1"], dial, silent)

    assert e.value.hint == "labnet logs kube-proxy@node1"
