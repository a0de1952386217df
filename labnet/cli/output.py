"""Text for people: aligned columns like kubectl's, and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

_GAP = "   "


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return ``rows`` below ``header``, each column as wide as its longest cell."""
    table = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    return "\n".join(_line(row, widths) for row in table)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return _GAP.join(cells).rstrip()


def print_json(value: object) -> None:
    """Print ``value`` as indented JSON."""
    click.echo(json.dumps(value, indent=2, default=str))
