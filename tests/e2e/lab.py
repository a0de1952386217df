"""A running lab as a person has it: the ``labnet`` command and what it prints."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conditions import eventually

ROOT = Path(__file__).parents[2]
LABNET = [sys.executable, "-m", "labnet.cli.main"]
DEADLINE = 60.0


@dataclass(frozen=True)
class Lab:
    """One lab by name; every method runs the command line, as a person would."""

    name: str

    def labnet(
        self, *argv: str, check: bool = True, timeout: float = DEADLINE, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*LABNET, "--lab", self.name, *argv],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            input=stdin if stdin is not None else "",
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"labnet {' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done

    def exec(self, target: str, *command: str, check: bool = True) -> str:
        return self.labnet("exec", target, "--", *command, check=check).stdout

    def curl(self, target: str, url: str) -> str:
        return self.exec(target, "curl", "-sS", "--max-time", "5", url)

    def kubectl(self, *argv: str, check: bool = True, stdin: str | None = None) -> str:
        return self.labnet("kubectl", "--", *argv, check=check, stdin=stdin).stdout

    def get(self, *argv: str) -> Any:
        return json.loads(self.kubectl("get", *argv, "-o", "json"))

    def pods(self, selector: str, namespace: str = "default") -> list[Any]:
        """Return the live pods that ``selector`` names, by name."""
        items = self.get("pods", "-n", namespace, "-l", selector)["items"]
        live = [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]
        return sorted(live, key=lambda pod: str(pod["metadata"]["name"]))

    def nat(self, node: str) -> list[str]:
        return self.exec(node, "iptables-save", "-t", "nat").splitlines()


def wait_until(what: str, condition: Callable[[], object], deadline: float = DEADLINE) -> None:
    """Ask ``condition`` until it holds; fail with ``what`` after ``deadline`` seconds."""
    eventually(condition, deadline, lambda: what, pause=0.05)


@contextlib.contextmanager
def running(scenario: str | Path, name: str, *options: str) -> Iterator[Lab]:
    """Start ``scenario`` under ``name``; take it down whatever happens."""
    lab = Lab(name)
    command = [*LABNET, "up", str(scenario), "--name", name, *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        yield lab
    finally:
        subprocess.run([*LABNET, "down", name], capture_output=True, timeout=60, check=False)


def host_state() -> dict[str, object]:
    """Return what of the host a lab must leave as it was."""
    return {
        "links": _lines("ip", "-o", "link"),
        "addresses": _lines("ip", "-o", "addr"),
        "routes": _lines("ip", "route", "show", "table", "all"),
        "rules": _lines("iptables-save") if os.geteuid() == 0 else [],
        "namespaces": _lines("ip", "netns"),
        "mounts": sorted(Path("/proc/self/mounts").read_text().splitlines()),
    }


def _lines(*argv: str) -> list[str]:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    # Lifetimes of addresses count down by themselves; comments of iptables-save carry the date.
    lines = [re.sub(r"valid_lft.*|\[\d+:\d+\]", "", line) for line in done.stdout.splitlines()]
    return sorted(line for line in lines if not line.startswith("#"))


def processes_of(name: str) -> list[int]:
    """Return the pids whose environment or command line names the lab's state directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if f"labnet/{name}".encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found
