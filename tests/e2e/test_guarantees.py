"""What a lab promises the machine it runs on: nothing is left, nothing is touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.lab import LABNET, ROOT, Lab, host_state, running, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
MY_NGINX = ROOT / "scenarios/my-nginx.yaml"


def _name(what: str) -> str:
    return f"e2e-{os.getpid()}-{what}"


def _entry(name: str) -> dict[str, object]:
    listed = subprocess.run([*LABNET, "ls", "-o", "json"], capture_output=True, check=True)
    labs = json.loads(listed.stdout)
    return next(lab for lab in labs if lab["name"] == name)


def test_the_host_is_the_same_during_and_after_a_lab() -> None:
    before = host_state()

    with running(MY_NGINX, _name("host")):
        during = host_state()

    assert during == before
    assert host_state() == before


def test_kill_9_of_pid_1_ends_everything() -> None:
    before = host_state()
    name = _name("kill")
    with running(MY_NGINX, name):
        pid = _entry(name)["pid"]
        assert isinstance(pid, int)
        members = _descendants(pid)

        os.kill(pid, signal.SIGKILL)

        wait_until("all its processes are gone", lambda: not _alive(members))
        assert host_state() == before
        status = subprocess.run([*LABNET, "status", "--lab", name], capture_output=True, text=True)
        assert status.returncode == 1
        assert "died" in status.stderr
        assert "Traceback" not in status.stderr


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in _descendants(int(child)))]


def _alive(pids: list[int]) -> list[int]:
    states = [Path(f"/proc/{pid}/stat") for pid in pids]
    return [
        p for p, s in zip(pids, states, strict=True) if s.exists() and " Z " not in s.read_text()
    ]


def test_an_up_that_is_killed_leaves_no_process() -> None:
    before = host_state()
    name = _name("killed-up")
    with subprocess.Popen(
        [*LABNET, "up", str(MY_NGINX), "--name", name], stdout=subprocess.PIPE, text=True
    ) as up:
        assert up.stdout
        for line in up.stdout:
            if "Underlay" in line:
                break
        members = _descendants(up.pid)
        up.kill()

    wait_until("all its processes are gone", lambda: not _alive(members))
    assert host_state() == before
    subprocess.run([*LABNET, "down", name], capture_output=True, check=False)


def test_two_labs_run_side_by_side() -> None:
    with running(MY_NGINX, _name("one")) as one, running(MY_NGINX, _name("two")) as two:
        for lab in (one, two):
            assert "my-nginx-" in lab.curl("node1", "http://10.11.97.177")
        one.kubectl("delete", "service", "my-nginx")
        assert "my-nginx-" in two.curl("node1", "http://10.11.97.177")


def test_a_name_that_is_taken_is_refused_and_the_lab_unharmed() -> None:
    with running(MY_NGINX, _name("taken")) as lab:
        again = subprocess.run(
            [*LABNET, "up", str(MY_NGINX), "--name", lab.name], capture_output=True, text=True
        )
        assert again.returncode == 1
        assert "already running" in again.stderr
        assert "my-nginx-" in lab.curl("node2", "http://10.11.97.177")


def test_two_thousand_services_are_programmed(tmp_path: Path) -> None:
    file = tmp_path / "services.yaml"
    file.write_text("\n---\n".join(json.dumps(service) for service in _services(2000)))
    with running(MY_NGINX, _name("many")) as lab:
        lab.labnet("kubectl", "--", "create", "-f", str(file), timeout=120)

        last = lab.get("service", "many-1999")["spec"]["clusterIP"]

        wait_until(
            "the last service answers",
            lambda: (
                "my-nginx-"
                in lab.labnet(
                    "exec",
                    "node1",
                    "--",
                    "curl",
                    "-s",
                    "--max-time",
                    "2",
                    f"http://{last}",
                    check=False,
                ).stdout
            ),
        )
        wait_until(
            "all are programmed",
            lambda: sum("-A KUBE-SERVICES -d" in r for r in lab.nat("node1")) >= 2002,
        )


def _services(count: int) -> list[dict[str, object]]:
    spec = {"selector": {"run": "my-nginx"}, "ports": [{"port": 80}]}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"many-{n}"}, "spec": spec}
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["exec", "nowhere", "--", "true"], "nowhere"),
        (["exec", "pod/nope", "--", "true"], "nope"),
        (["exec", "node1", "--", "no-such-command"], "no-such-command"),
        (["logs", "kube-proxy@node9"], "node9"),
        (["forward", "svc/nope", "18080:80"], "nope"),
        (["kubeconfig", "--for", "node9"], "node9"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_is_not_there_is_said_in_one_sentence(shared: Lab, argv: list[str], says: str) -> None:
    done = shared.labnet(*argv, check=False)

    assert done.returncode not in (0, 2)
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def shared():  # type: ignore[no-untyped-def]
    with running(MY_NGINX, _name("shared")) as lab:
        yield lab
