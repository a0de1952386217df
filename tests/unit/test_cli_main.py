"""The command line as a whole: verbs, errors, exit codes, speed of what is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from labnet.cli.main import VERBS, cli, main

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let this user have no labs, whatever really runs on the machine."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_help_lists_every_verb_in_the_order_of_the_table(capsys: Captured) -> None:
    assert main(["--help"]) == 0

    shown = capsys.readouterr().out
    places = [shown.index(f"\n  {verb} ") for verb in VERBS]
    assert places == sorted(places)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_there_and_explains_itself(verb: str, capsys: Captured) -> None:
    command = cli.get_command(click.Context(cli), verb)

    assert command is not None
    assert command.name == verb
    assert main([verb, "--help"]) == 0
    assert "Usage: labnet " + verb in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["exec", "node1", "--", "true"],
        ["shell", "node1"],
        ["kubectl", "get", "pods"],
        ["kubeconfig"],
        ["logs", "etcd"],
        ["forward", "svc/x", "80"],
        ["down"],
    ],
)
def test_without_a_lab_every_verb_says_how_to_start_one(
    command: list[str], capsys: Captured
) -> None:
    assert main(command) == 1

    out, err = capsys.readouterr()
    assert (out, err) == ("", "error: no lab is running\nhint: start one with `labnet up`\n")


def test_a_lab_may_be_named_before_or_after_the_verb(capsys: Captured) -> None:
    for command in (["--lab", "demo", "status"], ["status", "--lab", "demo"]):
        assert main(command) == 1
        assert "error: no lab is called demo" in capsys.readouterr().err


def test_a_wrong_command_line_ends_with_2_and_shows_the_usage(capsys: Captured) -> None:
    assert main(["status", "--wat"]) == 2
    assert "Usage: labnet status" in capsys.readouterr().err
    assert main(["wat"]) == 2
    assert "No such command 'wat'" in capsys.readouterr().err


def test_debug_shows_where_an_error_came_from(capsys: Captured) -> None:
    main(["--debug", "status"])

    assert "Traceback" in capsys.readouterr().err


def test_an_impossible_lab_name_is_an_error_with_the_rule(capsys: Captured) -> None:
    assert main(["status", "--lab", "No_Name"]) == 1

    assert "hint: use up to 63 small letters" in capsys.readouterr().err


def test_a_wrong_scenario_starts_nothing(no_labs: Path, capsys: Captured) -> None:
    broken = no_labs / "lab.yaml"
    broken.write_text("apiVersion: labnet.dev/v1\nkind: Lab\nmetadata: {nmae: x}\n")

    assert main(["up", str(broken)]) == 1

    assert "nothing was started" in capsys.readouterr().err
    assert [path.name for path in no_labs.iterdir()] == ["lab.yaml"]


def test_validate_says_what_a_good_scenario_has(capsys: Captured) -> None:
    assert main(["validate", "my-nginx"]) == 0

    assert capsys.readouterr().out.startswith(
        "my-nginx is fine: lab my-nginx; nodes: 3, clients: 1,"
    )


def test_scenarios_lists_what_is_shipped(capsys: Captured) -> None:
    assert main(["scenarios"]) == 0

    assert "my-nginx" in capsys.readouterr().out


def test_ls_without_labs_prints_nothing_for_programs_to_trip_over(capsys: Captured) -> None:
    assert main(["ls"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["ls", "-o", "json"]) == 0
    assert capsys.readouterr().out == "[]\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str, capsys: Captured) -> None:
    assert main(["completion", shell]) == 0
    assert "_LABNET_COMPLETE" in capsys.readouterr().out


def test_the_entry_point_imports_nothing_heavy() -> None:
    heavy = {"yaml", "cryptography", "rich", "grpc", "flask", "pyroute2", "ssl", "labnet.lab.up"}
    code = "import sys, labnet.cli.main as m; m.main(['--help']); print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert heavy & set(done.stdout.split()) == set()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_closed_standard_stream_is_not_what_is_opened_next(number: int) -> None:
    code = (
        "import os, sys, labnet.cli.main as m; os.close(int(sys.argv[1])); m.main(['ls']);"
        "sys.exit(os.readlink('/proc/self/fd/' + sys.argv[1]) != os.devnull)"
    )

    done = subprocess.run([sys.executable, "-c", code, str(number)], check=False)

    assert done.returncode == 0
