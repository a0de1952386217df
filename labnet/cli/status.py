"""`labnet status`: what runs where, once or continuously."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Any

import click

from labnet.cli.options import lab_option, output_option, running_lab
from labnet.cli.output import columns, print_json

if TYPE_CHECKING:
    from labnet.lab.state import StateDirectory
    from labnet.lab.status import Status

_REFRESH = 1.0  # seconds


@click.command()
@click.option("-w", "--watch", is_flag=True, help="Show it again every second, until Ctrl-C.")
@output_option
@lab_option
def status(watch: bool, output: str | None, lab: str | None) -> None:
    """Show nodes, components, subnets, pods and services of a lab."""
    from labnet.lab import status as snapshot

    state = running_lab(lab)
    if output:
        print_json(snapshot.status(state).as_json())
    elif watch:
        _watch(state)
    else:
        click.echo(_text(snapshot.status(state)))


def _watch(state: StateDirectory) -> None:
    from labnet.lab import status as snapshot

    pause = threading.Event()
    while True:
        text = _text(snapshot.status(state))
        if sys.stdout.isatty():
            click.clear()
        click.echo(text + "\n")
        pause.wait(_REFRESH)


def _text(found: Status) -> str:
    head = f"lab {found.lab}: {found.title}\nAPI server: {found.api}"
    tables = [_table(part) for part in (found.nodes, found.components, found.pods, found.services)]
    trouble = [click.style(found.trouble, fg="red")] if found.trouble else []
    return "\n\n".join([head, *trouble, *filter(None, tables)])


def _table(rows: Sequence[Any]) -> str:
    if not rows:
        return ""
    header = [field.name.upper() for field in fields(rows[0])]
    header[header.index("NAME")] = type(rows[0]).__name__.upper()
    return columns(header, [[str(cell) for cell in astuple(row)] for row in rows])
