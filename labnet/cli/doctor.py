"""`labnet doctor`: what this machine can do, what it lacks, and what gives it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from labnet.cli.options import output_option
from labnet.cli.output import columns, print_json
from labnet.lab.capabilities import NOT_TRIED

if TYPE_CHECKING:
    from labnet.lab.capabilities import Capability

_PROBE_SECONDS = 20


@click.command()
@output_option
def doctor(output: str | None) -> int:
    """Say what this machine can do, what needs it, and which command gives what is missing.

    The kernel is asked by trying, in namespaces that vanish again. Exit code 1 means
    that no lab can start here.
    """
    from labnet.lab import capabilities as known

    machine = known.Machine(_probed(), known.programs(), known.sysctls(), os.geteuid() == 0)
    table = known.capabilities(machine)
    if output:
        print_json([asdict(one) for one in table])
    else:
        click.echo(columns(("CAPABILITY", "STATE", "NEEDED BY", "HOW TO GET IT"), _rows(table)))
    return int(any(one.required and not one.present for one in table))


def _probed() -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "labnet.lab.probe"],
        capture_output=True,
        text=True,
        timeout=_PROBE_SECONDS,
        check=False,
    )
    found: dict[str, str] = json.loads(done.stdout) if done.returncode == 0 else {}
    return found


def _rows(table: tuple[Capability, ...]) -> list[tuple[str, str, str, str]]:
    return [(one.name, _state(one), one.needed_by, one.remedy) for one in table]


def _state(one: Capability) -> str:
    if one.present:
        return "yes"
    if one.detail == NOT_TRIED:
        return "unknown"
    return "MISSING" if one.required else "no"
