"""Command lines that hold another program's command line."""

from __future__ import annotations

import click
import pytest

from labnet.cli.exec import separated
from labnet.cli.kubectl import split_arguments
from labnet.cli.overrides import assignments, overrides

TAKING_VALUES = {"-n", "--namespace", "-c", "--container", "--lab"}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("node1 curl -s x", "node1 -- curl -s x"),
        ("node1 -- curl -s x", "node1 -- curl -s x"),
        ("-n kube-system pod/x -c app ls -l", "-n kube-system pod/x -c app -- ls -l"),
        ("pod/x --lab demo -- ls", "pod/x --lab demo -- ls"),
        ("--lab=demo node1 ls --lab", "--lab=demo node1 -- ls --lab"),
        ("node1", "node1"),
        ("", ""),
    ],
)
def test_exec_leaves_the_commands_own_options_alone(args: str, expected: str) -> None:
    assert separated(args.split(), TAKING_VALUES) == expected.split()


@pytest.mark.parametrize(
    ("args", "lab", "rest"),
    [
        ("get pods -o wide", None, "get pods -o wide"),
        ("-- get pods", None, "get pods"),
        ("--lab demo -- get pods", "demo", "get pods"),
        ("--lab=demo get pods", "demo", "get pods"),
        ("get pods --lab demo", "demo", "get pods"),
        ("-n kube-system get pods", None, "-n kube-system get pods"),
        ("exec web -- ls --lab x", None, "exec web -- ls --lab x"),
        ("-- exec web -- ls", None, "exec web -- ls"),
        ("get --help", None, "get --help"),
    ],
)
def test_kubectl_gets_everything_but_lab(args: str, lab: str | None, rest: str) -> None:
    assert split_arguments(args.split()) == (lab, rest.split())


def test_shorthands_and_settings_become_paths_in_order() -> None:
    options = {"name": "demo", "proxy_mode": "iptables", "backend": None}

    assert overrides(options, ["spec.podCIDR=10.1.0.0/16"]) == [
        ("metadata.name", "demo"),
        ("spec.proxy.mode", "iptables"),
        ("spec.podCIDR", "10.1.0.0/16"),
    ]


def test_a_setting_may_hold_an_equals_sign() -> None:
    assert assignments(["a.b=c=d"]) == [("a.b", "c=d")]


@pytest.mark.parametrize("setting", ["a.b", "=x", ""])
def test_a_setting_without_path_or_value_is_a_usage_error(setting: str) -> None:
    with pytest.raises(click.UsageError, match="PATH=VALUE"):
        assignments([setting])
