"""All labs of a user at a glance, from their state directories alone."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from labnet.errors import LabnetError
from labnet.lab import liveness
from labnet.lab.state import StateDirectory, read_info

Entry = dict[str, Any]


def labs() -> list[Entry]:
    """Return one entry per lab: ``lab.json`` and ``state`` (running, starting or dead)."""
    return [_entry(state, alive) for state, alive in liveness.labs()]


def _entry(state: StateDirectory, alive: bool) -> Entry:
    try:
        info = asdict(read_info(state))
    except LabnetError:
        return {"name": state.name, "state": "starting" if alive else "dead"}
    return {**info, "state": "running" if alive else "dead", "directory": str(state.path)}


def row(entry: Entry) -> tuple[str, ...]:
    """Return an entry as the columns of a table."""
    hosts = " ".join(host["name"] for host in entry.get("hosts", ()))
    columns = ("started", "api", "pid")
    started, api, pid = (str(entry.get(column, "-")) for column in columns)
    return entry["name"], entry["state"], started, hosts or "-", api, pid
