"""What `up` shows while it works: live on a terminal, plain lines anywhere else.

Everything goes to stderr, so that stdout has the result alone. rich is imported when the
sandbox is on its way: before that this process is the bottleneck, afterwards it waits.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import click

from labnet.cli.output import columns
from labnet.lab.progress import Progress, Span

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_RICH_AFTER = "Sandbox"  # the step with which waiting begins
_BAR = 40


class Screen:
    """Shows progress as it happens; a context, so that a terminal is left as it was."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, progress: Progress) -> None:
        """Take note of one event."""
        raise NotImplementedError

    @staticmethod
    def for_stderr() -> Screen:
        """Return the screen that fits where stderr goes."""
        return LiveScreen() if sys.stderr.isatty() else PlainScreen()


class PlainScreen(Screen):
    """One line per finished step."""

    def show(self, progress: Progress) -> None:
        """Print steps as they end."""
        if progress.state in ("done", "failed"):
            mark = "" if progress.state == "done" else " failed"
            click.echo(f"{progress.at:6.2f} s  {progress.step}{mark}", err=True)


class LiveScreen(Screen):
    """A table of steps that is redrawn in place."""

    def __init__(self) -> None:
        self._steps: dict[str, Progress] = {}
        self._live: Live | None = None

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Redraw with what is new."""
        self._steps[progress.step] = progress
        if self._live is None and progress.step == _RICH_AFTER and progress.state == "done":
            self._live = _live()
        if self._live is not None:
            self._live.update(self._table())

    def _table(self) -> Table:
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        for progress in self._steps.values():
            table.add_row(_mark(progress), progress.step, f"{progress.at:.2f} s", progress.detail)
        return table


def _live() -> Live:
    from rich.console import Console
    from rich.live import Live

    live = Live(console=Console(stderr=True), refresh_per_second=10, transient=True)
    live.start()
    return live


def _mark(progress: Progress) -> Any:
    from rich.spinner import Spinner
    from rich.text import Text

    if progress.state == "done":
        return Text("✓", style="green")
    if progress.state == "failed":
        return Text("✗", style="red")
    return Spinner("dots")


def timings_table(spans: Sequence[Span], total: float) -> str:
    """Return a table of steps with a bar each that shows when they ran."""
    rows = [
        (
            span.step,
            f"{span.start:.3f}",
            f"{span.end:.3f}",
            f"{span.seconds:.3f}",
            _bar(span, total),
        )
        for span in sorted(spans, key=lambda one: one.start)
    ]
    total_row = ("total", "0.000", f"{total:.3f}", f"{total:.3f}", "")
    return columns(("STEP", "FROM", "TO", "SECONDS", ""), [*rows, total_row])


def _bar(span: Span, total: float) -> str:
    scale = _BAR / total if total else 0.0
    before = round(span.start * scale)
    return " " * before + "█" * max(1, round(span.end * scale) - before)
