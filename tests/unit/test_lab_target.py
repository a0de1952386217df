"""Targets and ports as people type them."""

from __future__ import annotations

import pytest

from labnet.errors import LabnetError
from labnet.lab.target import Ports, Target, parse_ports, parse_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("node1", Target("host", "node1")),
        ("control-plane", Target("host", "control-plane")),
        ("node/node1", Target("host", "node1")),
        ("pod/web-0", Target("pod", "web-0")),
        ("po/web-0", Target("pod", "web-0")),
        ("svc/my-nginx", Target("service", "my-nginx")),
        ("service/my-nginx", Target("service", "my-nginx")),
    ],
)
def test_a_target_is_a_host_or_kind_and_name(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize("text", ["deploy/web", "pod/", "/web", "pod/a/b"])
def test_other_kinds_are_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(LabnetError, match="names no target") as refused:
        parse_target(text)

    assert "pod/NAME" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("8080:80", Ports(8080, "80")),
        ("80", Ports(80, "80")),
        (":80", Ports(0, "80")),
        ("0:80", Ports(0, "80")),
        ("8080:http", Ports(8080, "http")),
        ("http", Ports(0, "http")),
    ],
)
def test_ports_are_local_and_remote(text: str, ports: Ports) -> None:
    assert parse_ports(text) == ports


@pytest.mark.parametrize("text", ["", ":", "8080:", "70000", "8080:0", "8080:70000", "a:80"])
def test_impossible_ports_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(LabnetError, match="no pair of ports") as refused:
        parse_ports(text)

    assert "8080:80" in refused.value.hint
