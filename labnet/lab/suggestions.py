"""What to try on a lab that has just come up, with this lab's own names and addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labnet.lab.readiness import Cluster, Door
from labnet.lab.state import LabInfo

Suggestion = tuple[str, str]  # a command line, and what it shows
_API_SERVICE = "default/kubernetes"


def suggestions(
    info: LabInfo, cluster: Cluster, doors: Sequence[Door], *, alone: bool = True
) -> list[Suggestion]:
    """Return command lines that work on this very lab, each with its reason.

    Unless it is ``alone``, each says which lab is meant.
    """
    labnet = "labnet" if alone else f"labnet --lab {info.name}"
    found = [
        ("status", "what runs where"),
        ("kubectl get pods -A -o wide", "the cluster as kubectl sees it"),
        *_services(info, cluster, doors),
    ]
    ours = [(f"{labnet} {command}", what) for command, what in found]
    return [*ours, (f"labnet down {info.name}", "and it is all gone")]


def _services(info: LabInfo, cluster: Cluster, doors: Sequence[Door]) -> Iterator[Suggestion]:
    worker = next((host.name for host in info.hosts if host.role == "worker"), info.hosts[0].name)
    ours = [door for door in doors if door.service != _API_SERVICE]
    if ours:
        url = ours[0].address + ("" if ours[0].port == 80 else f":{ours[0].port}")
        yield f"exec {worker} -- curl -s {url}", f"{ours[0].service} by its virtual IP"
        yield f"exec {worker} -- iptables-save -t nat", "the rules behind it"
    if node_port := _node_port(cluster.services):
        outside = next((host.name for host in info.hosts if host.role == "client"), "")
        node = next(host.address for host in info.hosts if host.name == worker)
        if outside:
            command = f"exec {outside} -- curl -s {node}:{node_port}"
            yield command, "a NodePort, from outside the cluster"


def _node_port(services: Sequence[Mapping[str, Any]]) -> int:
    for service in services:
        for port in service["spec"].get("ports", ()):
            if port.get("nodePort") and port.get("protocol", "TCP") == "TCP":
                return int(port["nodePort"])
    return 0
