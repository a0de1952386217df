"""The first scenario, end to end: what the articles show, on a running lab."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lab import ROOT, Lab, running, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

VIRTUAL_IP = "10.11.97.177"
ARTICLE = (ROOT / "tests/golden/proxy/articles-nat.txt").read_text


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running(ROOT / "scenarios/my-nginx.yaml", f"e2e-{os.getpid()}") as lab:
        yield lab


@pytest.mark.parametrize("node", ["control-plane", "node1", "node2"])
def test_the_virtual_ip_answers_on_every_node(lab: Lab, node: str) -> None:
    assert "my-nginx-" in lab.curl(node, f"http://{VIRTUAL_IP}")


def test_the_virtual_ip_answers_in_a_pod_and_reaches_both_pods(lab: Lab) -> None:
    pods = {pod["metadata"]["name"] for pod in lab.pods("run=my-nginx")}
    client = f"pod/{min(pods)}"
    seen: set[str] = set()

    def both_answered() -> bool:
        answer = lab.curl(client, f"http://{VIRTUAL_IP}")
        seen.update(name for name in pods if name in answer)
        return seen == pods

    wait_until("both pods answer behind the virtual IP", both_answered)


def test_the_node_port_answers_a_host_outside_the_cluster(lab: Lab) -> None:
    for node in ("192.168.50.11", "192.168.50.12"):
        assert lab.curl("client", f"http://{node}:30001/hostname").startswith("front-end-")


def test_nobody_answers_a_ping_of_the_virtual_ip(lab: Lab) -> None:
    done = lab.labnet("exec", "node1", "--", "ping", "-c1", "-W1", VIRTUAL_IP, check=False)

    assert done.returncode == 1
    assert "100% packet loss" in done.stdout


def test_the_pods_have_the_pinned_addresses(lab: Lab) -> None:
    assert {pod["status"]["podIP"] for pod in lab.pods("run=my-nginx")} == {
        "10.244.1.10",
        "10.244.2.10",
    }


@pytest.mark.parametrize("node", ["node1", "node2"])
def test_the_articles_rules_stand_there_letter_for_letter(lab: Lab, node: str) -> None:
    wanted = [line for line in ARTICLE().splitlines() if line.startswith("-A")]
    rules = lab.nat(node)

    assert [line for line in wanted if line not in rules] == []
    for chain in {line.split()[1] for line in wanted}:
        ours = [line for line in wanted if line.split()[1] == chain]
        assert [line for line in rules if line in ours] == ours


def test_a_pod_sees_nothing_of_the_users_home(lab: Lab, secret: Path) -> None:
    pod = f"pod/{lab.pods('run=my-nginx')[0]['metadata']['name']}"

    assert lab.exec("node1", "cat", str(secret)) == "not for pods"
    done = lab.labnet("exec", pod, "--", "cat", str(secret), check=False)
    assert (done.returncode, done.stdout) == (1, "")
    for path in (Path.home() / ".ssh", Path("/run/labnet"), Path(f"/proc/1/root{secret}")):
        listed = lab.labnet("exec", pod, "--", "ls", "-A", str(path), check=False)
        assert listed.stdout == "", path


@pytest.fixture
def secret() -> Iterator[Path]:
    """A private file in the user's home, which a node, being this machine, can read."""
    path = Path.home() / f".labnet-test-{os.getpid()}"
    path.write_text("not for pods")
    path.chmod(0o600)
    yield path
    path.unlink()


@pytest.mark.parametrize(
    "url",
    [
        "https://192.168.50.10:2379/version",
        "https://192.168.50.11:10250/pods",
        "https://192.168.50.10:6443/api/v1/pods",
    ],
)
def test_a_pod_reaches_etcd_kubelet_and_api_and_is_refused(lab: Lab, url: str) -> None:
    pod = f"pod/{lab.pods('run=my-nginx')[0]['metadata']['name']}"
    command = ["curl", "-skv", "--http1.1", "--max-time", "5", "-o", "/dev/null"]

    done = lab.labnet("exec", pod, "--", *command, "-w", "%{http_code}", url, check=False)

    assert "Connected to 192.168.50" in done.stderr
    assert done.stdout in ("000", "401")  # 000: the handshake failed for want of a certificate


def test_exec_hands_back_output_and_exit_code(lab: Lab) -> None:
    done = lab.labnet("exec", "client", "--", "sh", "-c", "cat; exit 7", check=False, stdin="hi")

    assert (done.stdout, done.returncode) == ("hi", 7)


def test_kubectl_exec_and_logs_reach_the_container(lab: Lab) -> None:
    pod = lab.pods("run=my-nginx")[0]["metadata"]["name"]

    assert lab.kubectl("exec", pod, "--", "hostname").strip() == pod
    wait_until("an access line", lambda: "GET / " in lab.kubectl("logs", pod))


def test_tcpdump_works_on_a_node(lab: Lab) -> None:
    command = (
        "timeout 10 tcpdump -ni any -c1 port 80 & sleep 1; curl -s 10.11.97.177 >/dev/null; wait"
    )

    done = lab.labnet("exec", "node1", "--", "sh", "-c", command, check=False)

    assert "1 packet captured" in done.stderr, done.stderr


def test_signals_end_what_exec_runs(lab: Lab) -> None:
    done = lab.labnet("exec", "node1", "--", "sh", "-c", "kill -TERM $$", check=False)

    assert done.returncode == 128 + signal.SIGTERM
