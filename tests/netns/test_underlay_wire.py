"""The underlay in a real kernel: hosts reach each other, and only each other."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from labnet.errors import OpFailed
from labnet.lab import underlay
from tests.own_netns import in_netns, new_netns

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("own_netns")]
ADDRESSES = {"node1": "192.168.50.11", "node2": "192.168.50.12", "client": "192.168.50.100"}


@pytest.fixture
def hosts(own_netns: None) -> Iterator[dict[str, int]]:
    made = {name: new_netns() for name in ADDRESSES}
    yield made
    for fd in made.values():
        os.close(fd)


def config(hosts: dict[str, int]) -> dict[str, object]:
    return {
        "gateway": "192.168.50.1/24",
        "hosts": [
            {
                "name": name,
                "netns": f"/proc/self/fd/{fd}",
                "address": ADDRESSES[name],
                "forwards": name != "client",
            }
            for name, fd in hosts.items()
        ],
    }


def test_every_host_reaches_every_other(hosts: dict[str, int]) -> None:
    made = underlay.wire(config(hosts))

    assert made["hosts"]["node1"] == {
        "port": "ul-node1",
        "address": "192.168.50.11/24",
        "mac": "02:00:c0:a8:32:0b",
    }
    for fd in hosts.values():
        for address in ("192.168.50.1", *ADDRESSES.values()):
            assert "1 received" in in_netns(fd, "ping", "-c1", "-W2", address)


def test_a_host_has_eth0_a_default_route_and_no_ipv6_address(hosts: dict[str, int]) -> None:
    underlay.wire(config(hosts))

    assert "default via 192.168.50.1 dev eth0" in in_netns(hosts["node1"], "ip", "route")
    assert "192.168.50.11/24 brd 192.168.50.255" in in_netns(hosts["node1"], "ip", "addr")
    assert "fe80" not in in_netns(hosts["node1"], "ip", "addr")
    assert "LOOPBACK,UP" in in_netns(hosts["node1"], "ip", "link", "show", "lo")
    assert "fe80" not in subprocess.run(["ip", "addr"], capture_output=True, text=True).stdout


@pytest.mark.parametrize(("host", "forward"), [("node1", "1"), ("client", "0")])
def test_only_nodes_forward(hosts: dict[str, int], host: str, forward: str) -> None:
    underlay.wire(config(hosts))

    assert in_netns(hosts[host], "sysctl", "-n", "net.ipv4.ip_forward").strip() == forward
    for where in ("all", "default", "eth0"):
        path = f"net.ipv4.conf.{where}.rp_filter"
        assert in_netns(hosts[host], "sysctl", "-n", path).strip() == "0"


def test_bridged_traffic_passes_netfilter_on_nodes_and_not_on_the_wire(
    hosts: dict[str, int],
) -> None:
    underlay.wire(config(hosts))

    assert in_netns(hosts["node1"], "sysctl", "-n", underlay.BRIDGED_TRAFFIC).strip() == "1"
    here = subprocess.run(
        ["sysctl", "-n", underlay.BRIDGED_TRAFFIC], capture_output=True, text=True, check=True
    )
    assert here.stdout.strip() == "0"


def test_wiring_twice_is_refused_with_the_command(hosts: dict[str, int]) -> None:
    underlay.wire(config(hosts))

    with pytest.raises(OpFailed, match=r"underlay: ip link add ul-node1 .*File exists"):
        underlay.wire(config(hosts))


def test_a_missing_namespace_says_which(hosts: dict[str, int]) -> None:
    broken = config(hosts)
    broken["hosts"] = [{"name": "x", "netns": "/run/netns/none", "address": "192.168.50.9"}]

    with pytest.raises(FileNotFoundError, match="/run/netns/none"):
        underlay.wire(broken)


def test_one_more_host_costs_milliseconds(hosts: dict[str, int]) -> None:
    start = time.perf_counter()
    underlay.wire(config(hosts))

    assert time.perf_counter() - start < 0.5  # 5 ms a host when the machine is idle
