"""What a lab tells about itself: ``lab.json`` and the kubeconfig, for people and programs."""

from __future__ import annotations

import json
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from platform import python_version, release

from labnet.clock import rfc3339
from labnet.lab import kubeconfig
from labnet.lab.compose import Composition
from labnet.lab.state import Host, LabInfo, StateDirectory
from labnet.scenario.model import Lab


def info(
    lab: Lab, plan: Composition, *, pid: int, api_port: int, source: Path, started: datetime
) -> LabInfo:
    """Return what ``lab.json`` says about ``lab``."""
    return LabInfo(
        name=lab.name,
        title=lab.title,
        started=rfc3339(started),
        pid=pid,
        api=f"https://127.0.0.1:{api_port}",
        api_port=api_port,
        hosts=_hosts(lab),
        components=tuple(one.name for one in plan.components),
        addresses={
            "underlay": str(lab.underlay),
            "podCIDR": str(lab.pod_cidr),
            "serviceCIDR": str(lab.service_cidr),
        },
        versions={"labnet": version("labnet"), "python": python_version(), "kernel": release()},
        source=str(source.resolve()),
    )


def _hosts(lab: Lab) -> tuple[Host, ...]:
    nodes = tuple(Host(node.name, str(node.address), node.role) for node in lab.nodes)
    clients = tuple(Host(client.name, str(client.address), "client") for client in lab.clients)
    return nodes + clients


def write_kubeconfig(state: StateDirectory, server: str) -> None:
    """Write the admin's kubeconfig, readable by its owner alone.

    JSON is YAML too; it is written without the YAML package, which `up` need not load.
    """
    document = kubeconfig.document(state.name, server, state.pki)
    state.kubeconfig.touch(mode=0o600)
    state.kubeconfig.write_text(json.dumps(document, indent=2) + "\n")
