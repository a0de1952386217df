"""What to try next is made of the lab's own names and addresses."""

from __future__ import annotations

from labnet.lab.readiness import Cluster, Door
from labnet.lab.state import Host, LabInfo
from labnet.lab.suggestions import suggestions

HOSTS = (
    Host("control-plane", "192.168.50.10", "control-plane"),
    Host("node1", "192.168.50.11", "worker"),
    Host("client", "192.168.50.100", "client"),
)
INFO = LabInfo("demo", "", "", 1, "", 1, HOSTS, components=())
SERVICE = {"spec": {"ports": [{"port": 80, "nodePort": 30001}]}}
DOORS = (Door("default/kubernetes", "10.0.0.1", 443), Door("default/web", "10.11.0.1", 80))


def commands(cluster: Cluster, doors: tuple[Door, ...], *, alone: bool = True) -> list[str]:
    return [command for command, _ in suggestions(INFO, cluster, doors, alone=alone)]


def test_services_are_tried_by_virtual_ip_and_node_port() -> None:
    found = commands(Cluster(services=[SERVICE]), DOORS)

    assert "labnet exec node1 -- curl -s 10.11.0.1" in found
    assert "labnet exec client -- curl -s 192.168.50.11:30001" in found
    assert found[-1] == "labnet down demo"


def test_without_services_there_is_still_something_to_look_at() -> None:
    assert commands(Cluster(), DOORS[:1]) == [
        "labnet status",
        "labnet kubectl get pods -A -o wide",
        "labnet down demo",
    ]


def test_beside_other_labs_each_command_says_which_is_meant() -> None:
    assert commands(Cluster(), (), alone=False)[0] == "labnet --lab demo status"
