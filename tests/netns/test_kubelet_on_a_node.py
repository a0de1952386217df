"""The kubelet with real processes, namespaces and packets, on one node of a lab."""

from __future__ import annotations

import os
import select
import tempfile
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from labnet.lab.init.boot import Boot
from labnet.lab.init.launch import launch
from labnet.lab.pki import Request, write_pki
from labnet.linux.seqpacket import Client
from labnet.node.kubelet.server import CLIENT_NAME
from labnet.sandbox.zygote import HostSpec, Zygote

pytestmark = pytest.mark.netns

PROGRAMS = ("labnet.image.programs.web", "labnet.image.programs.agnhost")
Play = Callable[..., Any]


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    """A lab with one node; call it with a scene's name and its configuration."""
    with tempfile.TemporaryDirectory(prefix="labnet-kubelet-") as directory:
        state = Path(directory)
        pki = state / "pki"
        pki.mkdir()
        server = Request("kubelet", "system:node:node1", addresses=(IPv4Address("127.0.0.1"),))
        write_pki(pki, (server, Request("api", CLIENT_NAME)))
        launched = launch(Boot("kubelet-test", state, preload=PROGRAMS))
        zygote = Zygote(Client(launched.control))
        try:
            zygote.hosts([HostSpec("node1")])
            zygote.preload()
            yield lambda name, **config: zygote.run(
                f"tests.netns.kubelet_scene:{name}", config, "node1"
            )
        finally:
            zygote.shutdown()
            assert select.select([launched.pidfd], [], [], 10)[0]
            os.close(launched.pidfd)
            zygote.close()


def output(play: Play, line: str, **container: Any) -> str:
    """Return what one shell line prints in a busybox container."""
    found = play("commands", lines=[line], container=container)[line]
    return str(found["out"] + found["err"]).strip()


def test_a_web_server_answers_at_its_pods_address(play: Play) -> None:
    seen = play("serves")
    assert seen["ip"].startswith("10.244.2.")
    assert "pod: web\nnode: node1\n" in seen["page"]
    assert f"server: {seen['ip']}:80\n" in seen["page"]
    assert "client: 10.244.2.1\n" in seen["page"]
    assert '"GET / HTTP/1.0" 200' in seen["log"]


def test_a_container_sees_only_what_is_its_own(play: Play) -> None:
    lines = [
        "ls -A /home /root /run /var/lib /var/log /tmp",
        "cat /etc/shadow",
        "ls /etc/ssl/private",
        "touch /usr/x",
        "cat /run/labnet/pki/ca.crt",
        "echo 1 > /proc/sys/kernel/domainname",
        "ls /dev",
        "ps ax | wc -l",
        "cat /proc/1/comm",
        "hostname",
        "cat /etc/hosts",
        "id -u",
    ]
    seen = play("commands", lines=lines)
    listing = seen[lines[0]]["out"].split()
    assert [word for word in listing if not word.endswith(":")] == []
    assert [seen[line]["code"] != 0 for line in lines[1:6]] == [True] * 5, seen
    assert "Read-only file system" in seen["touch /usr/x"]["err"]
    assert {"null", "pts", "shm", "urandom"} <= set(seen["ls /dev"]["out"].split())
    assert "sda" not in seen["ls /dev"]["out"]
    assert int(seen["ps ax | wc -l"]["out"]) < 8
    assert seen["cat /proc/1/comm"]["out"] == "sh\n"
    assert seen["hostname"]["out"] == "box\n"
    assert "\tbox\n" in seen["cat /etc/hosts"]["out"]


def test_the_networks_tools_are_at_hand(play: Play) -> None:
    lines = [
        "ip -br addr show eth0",
        "ip route",
        "ping -c1 -W2 10.244.2.1",
        "awk 'BEGIN {print 1}'",
        "python3 -c 'import ssl'",
    ]
    seen = play("commands", lines=lines)
    assert [seen[line]["code"] for line in lines] == [0] * len(lines), seen
    assert "10.244.2." in seen[lines[0]]["out"]
    assert "default via 10.244.2.1 dev eth0" in seen[lines[1]]["out"]


def test_capabilities_are_dockers_and_can_be_dropped(play: Play) -> None:
    line = "grep CapEff /proc/self/status"
    default = int(output(play, line).split()[-1], 16)
    assert default & 1 << 13  # NET_RAW
    assert not default & 1 << 21  # SYS_ADMIN
    none = output(play, line, securityContext={"capabilities": {"drop": ["ALL"]}})
    assert int(none.split()[-1], 16) == 0


def test_exec_has_codes_terminals_and_built_in_programs(play: Play) -> None:
    seen = play("executes")
    assert seen["code"]["code"] == 7
    assert "33 99\r\n/dev/pts/0" in seen["terminal"]["out"]
    assert seen["terminal"]["code"] == 0
    assert "executable file not found" in seen["missing"]["error"]
    assert seen["built-in"] == {"out": "", "err": "", "code": 0}
    assert seen["script"] == {"out": "", "err": "REFUSED\n", "code": 1}
    assert seen["variables"]["out"] == "box node1\n"


def test_pods_and_their_logs_survive_the_kubelet(play: Play) -> None:
    seen = play("restarts")
    assert seen["before"] == seen["after"]
    assert all(seen["after"].values())
    assert seen["last"] == 5


def test_sigterm_ends_a_server_at_once_and_a_sleep_after_its_grace(play: Play) -> None:
    seen = play("ends")
    assert seen["quick"] < 0.8
    assert 1.0 <= seen["patient"] < 3.0
    assert (seen["left"], seen["files"]) == ([], [])


def test_probes_go_over_the_pods_network_and_into_the_container(play: Play) -> None:
    seen = play("probes")
    assert seen["seconds"] < 3
    assert {"Unhealthy", "Killing", "Started"} <= set(seen["reasons"])


def test_a_pod_in_the_nodes_network(play: Play) -> None:
    seen = play("host_network")
    assert "pod: node1\n" in seen["page"]
    assert seen["name"] == "node1"


def test_thirty_pods_are_ready_soon(play: Play) -> None:
    assert play("many", pods=30)["seconds"] < 10
