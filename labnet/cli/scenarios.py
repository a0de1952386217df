"""`labnet scenarios` and `labnet validate`: what can be started, and what is wrong with it."""

from __future__ import annotations

import click

from labnet.cli.options import output_option
from labnet.cli.output import columns, print_json


@click.command()
@output_option
def scenarios(output: str | None) -> None:
    """List the scenarios that come with labnet.

    `labnet up NAME` starts one; copy its file to make your own.
    """
    from labnet.lab.shipped import shipped
    from labnet.scenario import load

    found = [
        {"name": name, "title": load(path).title, "file": str(path)}
        for name, path in shipped().items()
    ]
    if output:
        print_json(found)
        return
    click.echo(columns(("NAME", "TITLE", "FILE"), [tuple(one.values()) for one in found]))


@click.command()
@click.argument("file")
@click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="As for `up`.")
def validate(file: str, settings: tuple[str, ...]) -> None:
    """Check the scenario FILE and say everything that is wrong with it.

    FILE may also be the name of a shipped scenario. Nothing is started.
    """
    from labnet.cli.overrides import assignments
    from labnet.lab.shipped import resolve
    from labnet.scenario import load

    lab = load(resolve(file), assignments(settings))
    click.echo(
        f"{file} is fine: lab {lab.name}; nodes: {len(lab.nodes)}, "
        f"clients: {len(lab.clients)}, objects: {len(lab.objects)}"
    )
