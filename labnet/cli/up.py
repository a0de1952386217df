"""`labnet up`: start a lab, show what is going on, say what to try next."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from labnet.cli.options import Invocation
from labnet.cli.output import print_json
from labnet.cli.overrides import overrides

if TYPE_CHECKING:
    from labnet.lab.progress import Span
    from labnet.lab.up import Running


@click.command()
@click.argument("scenario", required=False, metavar="[FILE|NAME]")
@click.option("--name", metavar="NAME", help="Call the lab NAME instead of what FILE calls it.")
@click.option(
    "--proxy-mode", metavar="MODE", help="How Services are programmed: iptables or userspace."
)
@click.option("--rule-style", metavar="STYLE", help="Shape of the rules: current or v1.2.")
@click.option("--backend", metavar="TYPE", help="flannel's backend: vxlan or host-gw.")
@click.option("--runtime", metavar="RUNTIME", help="What runs containers: process.")
@click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="Change FILE.")
@click.option("--api-port", type=click.IntRange(0, 65535), default=0, metavar="PORT")
@click.option("--timeout", type=click.FloatRange(min=0), default=60.0, metavar="SECONDS")
@click.option("--keep", is_flag=True, help="Leave a lab that does not get ready, to look at it.")
@click.option("--timings", is_flag=True, help="Show where the time went.")
@click.option("-o", "--output", type=click.Choice(["json"]), help="Print JSON, for programs.")
@click.option("--foreground", is_flag=True, help="Stay, and end the lab on Ctrl-C or SIGTERM.")
@click.pass_context
def up(
    ctx: click.Context,
    /,
    scenario: str | None,
    settings: tuple[str, ...],
    api_port: int,
    timeout: float,
    keep: bool,
    timings: bool,
    output: str | None,
    foreground: bool,
    **options: str | None,
) -> None:
    """Start the lab in FILE, or the shipped scenario NAME, and wait until it works.

    Without either it is `my-nginx`. Nothing is left behind if it does not come up.

    \b
    labnet up
    labnet up lab.yaml --name second
    labnet up my-nginx --rule-style current --set spec.backend.type=host-gw
    """
    origin = _process_start()
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    options["name"] = options["name"] or ctx.ensure_object(Invocation).lab
    try:
        running, spans, seconds = _started(
            scenario, overrides(options, settings), (api_port, timeout, keep), origin
        )
    except KeyboardInterrupt:
        click.echo("interrupted: nothing of the lab is left", err=True)
        raise
    _tell(running, spans, seconds, timings=timings, output=output)
    if foreground:
        _stay(running)


def _started(
    scenario: str | None,
    changes: list[tuple[str, str]],
    wishes: tuple[int, float, bool],
    origin: float,
) -> tuple[Running, list[Span], float]:
    from labnet.cli.progress import Screen
    from labnet.clock import SystemClock
    from labnet.lab.progress import Timeline
    from labnet.lab.shipped import resolve
    from labnet.lab.up import Wishes, up
    from labnet.scenario import load

    source = resolve(scenario)
    with Screen.for_stderr() as screen:
        timeline = Timeline(SystemClock(), screen.show, origin)
        with timeline.step("Scenario"):
            lab = load(source, changes)
        running = up(lab, Wishes(source, *wishes), SystemClock(), timeline)
        return running, timeline.spans, timeline.now()


def _interrupt(_: int, __: FrameType | None) -> None:
    """End as after Ctrl-C: everything half-made is undone."""
    raise KeyboardInterrupt


def _process_start() -> float:
    """Return the monotonic moment at which this process was started.

    The 22nd field of /proc/self/stat is in clock ticks (10 ms) since boot; times count
    from there, so that they include the interpreter's start and all imports.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic() - (since_boot - int(fields[19]) / 100)


# -- the end ----------------------------------------------------------------------------


def _tell(
    running: Running, spans: list[Span], seconds: float, *, timings: bool, output: str | None
) -> None:
    if output:
        print_json(_document(running, spans, seconds))
        return
    if timings:
        from labnet.cli.progress import timings_table

        click.echo(timings_table(spans, seconds))
    click.echo(_what_next(running, seconds))


def _document(running: Running, spans: list[Span], seconds: float) -> dict[str, Any]:
    return {
        "name": running.info.name,
        "api": running.info.api,
        "kubeconfig": str(running.state.kubeconfig),
        "pid": running.info.pid,
        "seconds": round(seconds, 3),
        "timings": [
            {"step": one.step, "start": round(one.start, 3), "seconds": round(one.seconds, 3)}
            for one in spans
        ],
    }


def _what_next(running: Running, seconds: float) -> str:
    from labnet.lab import liveness
    from labnet.lab.suggestions import suggestions

    cluster = running.cluster
    counts = (
        f"{len(cluster.nodes)} nodes, {len(cluster.pods)} pods, {len(cluster.services)} services"
    )
    head = f"lab {running.info.name} is up in {seconds:.2f} s: {counts}"
    alone = sum(1 for _, alive in liveness.labs() if alive) == 1
    commands = suggestions(running.info, cluster, running.doors, alone=alone)
    width = max(len(command) for command, _ in commands)
    lines = [f"  {command.ljust(width)}   # {what}" for command, what in commands]
    return "\n".join([click.style(head, bold=True), "", *lines])


def _stay(running: Running) -> None:
    """Wait until the lab ends by itself or somebody ends this process."""
    import os
    import select

    from labnet.clock import SystemClock
    from labnet.errors import Unavailable
    from labnet.lab.down import down

    poll = select.poll()
    poll.register(running.pidfd, select.POLLIN)
    try:
        poll.poll()
    except KeyboardInterrupt:
        down(running.state, SystemClock())
        click.echo(f"lab {running.info.name} is gone", err=True)
        return
    finally:
        os.close(running.pidfd)
    raise Unavailable(
        f"lab {running.info.name} has ended", hint=f"labnet logs --lab {running.info.name}"
    )
