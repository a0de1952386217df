"""Hosts and containers are found by the names people use."""

from __future__ import annotations

import pytest

from labnet.errors import NotFound
from labnet.lab import containers, hosts
from labnet.lab.state import Host, LabInfo
from labnet.sandbox.planner import CONTAINER, NAMESPACE, POD_NAME
from labnet.sandbox.spec import Exit, Process

INFO = LabInfo("demo", "", "", 1, "", 1, (Host("node1", "192.168.50.11", "worker"),), components=())


def container(pod: str, name: str, started: str = "1", ended: bool = False) -> Process:
    labels = ((NAMESPACE, "default"), (POD_NAME, pod), (CONTAINER, name))
    exit = Exit(0, 0, "") if ended else None
    return Process(f"uid/{name}/0", "container", "node1", 5, started, exit=exit, labels=labels)


RUNNING = (
    container("web-1", "sidecar", started="2"),
    container("web-1", "app"),
    container("web-1", "init", started="0", ended=True),
    container("web-2", "app"),
)


def test_a_host_is_known_by_its_name() -> None:
    assert hosts.named(INFO, "node1") == "node1"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("ndoe1", "did you mean node1?"), ("xyz", "hosts: node1; pods: pod/NAME")],
)
def test_an_unknown_host_is_answered_with_those_there_are(name: str, hint: str) -> None:
    with pytest.raises(NotFound, match="has no host") as missing:
        hosts.named(INFO, name)

    assert missing.value.hint == hint


def test_the_container_started_first_is_meant_unless_one_is_named() -> None:
    assert containers.running(RUNNING, "default", "web-1").id == "uid/app/0"
    assert containers.running(RUNNING, "default", "web-1", "sidecar").id == "uid/sidecar/0"


def test_a_container_that_has_ended_is_not_there() -> None:
    with pytest.raises(NotFound, match="runs no container 'init'") as missing:
        containers.running(RUNNING, "default", "web-1", "init")

    assert missing.value.hint == "it runs: app, sidecar"


@pytest.mark.parametrize(
    ("namespace", "pod", "hint"),
    [
        ("default", "web", "did you mean pod/web-1 or pod/web-2?"),
        ("default", "wbe-1", "did you mean pod/web-1"),
        ("other", "web-1", "-n says which namespace"),
    ],
)
def test_an_unknown_pod_is_answered_with_the_nearest(namespace: str, pod: str, hint: str) -> None:
    with pytest.raises(NotFound, match="no container of a pod") as missing:
        containers.running(RUNNING, namespace, pod)

    assert hint in missing.value.hint
