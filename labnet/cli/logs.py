"""`labnet logs`: what a component wrote, also after the lab has died."""

from __future__ import annotations

import click

from labnet.cli.options import component_names, lab_option


@click.command()
@click.argument("component", required=False, shell_complete=component_names)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on.")
@click.option("--tail", type=click.IntRange(min=0), metavar="LINES", help="Only the last LINES.")
@lab_option
def logs(component: str | None, follow: bool, tail: int | None, lab: str | None) -> None:
    """Show what COMPONENT wrote; without COMPONENT, list those with a log.

    \b
    labnet logs kube-proxy@node1 -f
    labnet logs etcd --tail 20
    """
    from labnet.lab import liveness
    from labnet.lab import logs as files

    state = liveness.find(lab, dead_too=True)
    if component is None:
        click.echo("\n".join(files.names(state)))
        return
    path = files.find(state, component)
    if not follow:
        click.echo(files.last_lines(path, tail), nl=False)
        return
    for block in files.follow(path, tail, alive=lambda: liveness.running(state)):
        click.echo(block, nl=False)
