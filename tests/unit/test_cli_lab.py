"""Verbs on a lab of which only the state directory is real: its lock is held, nobody answers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from labnet.cli.main import main
from labnet.lab import liveness
from labnet.lab.describe import write_kubeconfig
from labnet.lab.state import Host, LabInfo, StateDirectory, write_info

Captured = pytest.CaptureFixture[str]

HOSTS = (
    Host("control-plane", "192.168.50.10", "control-plane"),
    Host("node1", "192.168.50.11", "worker"),
)
INFO = LabInfo(
    name="demo",
    title="A demo",
    started="2026-01-01T00:00:00Z",
    pid=4711,
    api="https://127.0.0.1:40123",
    api_port=40123,
    hosts=HOSTS,
    components=("etcd",),
)


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path / "run" / "labnet"


@pytest.fixture
def demo(base: Path) -> Iterator[StateDirectory]:
    state, lock = liveness.acquire("demo", base)
    for directory in (state.pki, state.logs):
        directory.mkdir()
    for name in ("ca.crt", "admin.crt", "admin.key"):
        (state.pki / name).write_text(f"the {name}")
    (state.logs / "etcd.log").write_text("one\ntwo\n")
    write_kubeconfig(state, INFO.api)
    write_info(state, INFO)
    yield state
    os.close(lock)


def test_ls_shows_running_and_dead_labs(base: Path, demo: StateDirectory, capsys: Captured) -> None:
    _, lock = liveness.acquire("dead", base)
    os.close(lock)

    assert main(["ls"]) == 0

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1][:2] == ["dead", "dead"]
    assert lines[2] == [
        "demo",
        "running",
        "2026-01-01T00:00:00Z",
        "control-plane",
        "node1",
        "https://127.0.0.1:40123",
        "4711",
    ]
    main(["ls", "-o", "json"])
    assert [one["state"] for one in json.loads(capsys.readouterr().out)] == ["dead", "running"]


def test_a_second_up_of_the_same_name_is_told_so(demo: StateDirectory, capsys: Captured) -> None:
    assert main(["up", "--name", "demo"]) == 1

    err = capsys.readouterr().err
    assert "error: lab demo is already running" in err
    assert "hint: end it with `labnet down demo`" in err


@pytest.mark.parametrize("command", [["exec", "node1", "true"], ["status"], ["shell", "node1"]])
def test_a_lab_that_does_not_answer_is_an_error_with_a_next_step(
    demo: StateDirectory, capsys: Captured, command: list[str]
) -> None:
    assert main(command) == 1

    err = capsys.readouterr().err
    assert "control.sock" in err
    assert "hint: " in err


def test_kubeconfig_is_yaml_with_the_hosts_address(demo: StateDirectory, capsys: Captured) -> None:
    assert main(["kubeconfig"]) == 0

    found = yaml.safe_load(capsys.readouterr().out)
    assert found["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:40123"


def test_kubeconfig_for_a_node_has_the_underlay_address(
    demo: StateDirectory, capsys: Captured
) -> None:
    assert main(["kubeconfig", "--for", "node1"]) == 0

    found = yaml.safe_load(capsys.readouterr().out)
    assert found["clusters"][0]["cluster"]["server"] == "https://192.168.50.10:6443"
    assert main(["kubeconfig", "--for", "node9"]) == 1
    assert "hosts: control-plane, node1" in capsys.readouterr().err


def test_kubeconfig_path_prints_a_file_that_only_its_owner_reads(
    demo: StateDirectory, capsys: Captured
) -> None:
    assert main(["kubeconfig", "--path"]) == 0

    path = Path(capsys.readouterr().out.strip())
    assert path == demo.kubeconfig
    assert path.stat().st_mode & 0o777 == 0o600


def test_merging_keeps_the_file_as_it_was_beside_it(demo: StateDirectory, capsys: Captured) -> None:
    own = Path.home() / ".kube" / "config"
    own.parent.mkdir(parents=True)
    own.write_text("clusters: [{name: work, cluster: {server: https://work.example}}]\n")

    assert main(["kubeconfig", "--merge"]) == 0

    merged = yaml.safe_load(own.read_text())
    assert [one["name"] for one in merged["clusters"]] == ["work", "labnet-demo"]
    assert "labnet-demo" not in (own.parent / "config.before-labnet").read_text()
    assert own.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in own.parent.iterdir()) == ["config", "config.before-labnet"]


def test_merging_into_nothing_makes_the_file(demo: StateDirectory) -> None:
    assert main(["kubeconfig", "--merge"]) == 0

    assert [path.name for path in (Path.home() / ".kube").iterdir()] == ["config"]


def test_ways_to_get_a_kubeconfig_exclude_each_other(
    demo: StateDirectory, capsys: Captured
) -> None:
    assert main(["kubeconfig", "--path", "--merge"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_logs_lists_components_and_shows_what_they_wrote(
    demo: StateDirectory, capsys: Captured
) -> None:
    main(["logs"])
    assert capsys.readouterr().out == "etcd\n"
    main(["logs", "etcd", "--tail", "1"])
    assert capsys.readouterr().out == "two\n"


def test_a_dead_lab_can_be_asked_for_its_logs_and_cleared_away(
    base: Path, capsys: Captured
) -> None:
    state, lock = liveness.acquire("demo", base)
    state.logs.mkdir()
    (state.logs / "etcd.log").write_text("bye\n")
    os.close(lock)

    assert main(["logs", "etcd"]) == 0
    assert capsys.readouterr().out == "bye\n"
    assert main(["status"]) == 1
    assert "lab demo has died" in capsys.readouterr().err
    assert main(["down"]) == 0
    assert capsys.readouterr().out == "lab demo is gone\n"
    assert not base.exists()


def test_down_checks_all_names_before_it_ends_any(base: Path, capsys: Captured) -> None:
    _, lock = liveness.acquire("dead", base)
    os.close(lock)

    assert main(["down", "dead", "dmeo"]) == 1

    assert "hint: there are: dead" in capsys.readouterr().err
    assert (base / "dead").exists()


def test_reset_removes_dead_labs_and_half_removed_ones(base: Path, capsys: Captured) -> None:
    _, lock = liveness.acquire("dead", base)
    os.close(lock)
    (base / ".gone-other-1").mkdir()

    assert main(["reset"]) == 0

    assert not base.exists()
