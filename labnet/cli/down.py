"""`labnet down`, `labnet reset` and `labnet ls`: the labs of this user."""

from __future__ import annotations

import click

from labnet.cli.options import Invocation, lab_names, output_option
from labnet.cli.output import columns, print_json


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=lab_names)
@click.option("--all", "every", is_flag=True, help="All labs of yours.")
@click.option("--lab", metavar="NAME", help="The same as NAME.")
@click.pass_context
def down(ctx: click.Context, names: tuple[str, ...], every: bool, lab: str | None) -> None:
    """End the labs called NAME; without a name, the only one.

    Everything of a lab goes: processes, namespaces, rules, files. A lab that has died
    is cleared away in the same manner.
    """
    from labnet.clock import SystemClock
    from labnet.lab import liveness
    from labnet.lab.down import chosen
    from labnet.lab.down import down as end

    given = lab or ctx.ensure_object(Invocation).lab
    for state in chosen(names or ((given,) if given else ()), every=every):
        end(state, SystemClock())
        click.echo(f"lab {state.name} is gone")
    liveness.sweep()


@click.command()
def reset() -> None:
    """End every lab of yours and remove what dead or half-started ones left."""
    from labnet.clock import SystemClock
    from labnet.lab import liveness
    from labnet.lab.down import chosen
    from labnet.lab.down import down as end

    for state in chosen((), every=True):
        end(state, SystemClock())
        click.echo(f"lab {state.name} is gone")
    liveness.sweep()


@click.command()
@output_option
def ls(output: str | None) -> None:
    """List your labs, running and dead."""
    from labnet.lab import listing

    found = listing.labs()
    if output:
        print_json(found)
    elif not found:
        click.echo("no labs; start one with `labnet up`", err=True)
    else:
        header = ("NAME", "STATE", "STARTED", "HOSTS", "API", "PID")
        click.echo(columns(header, [listing.row(one) for one in found]))
