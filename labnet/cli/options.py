"""Options that many verbs share, and what a command line has said so far.

``--lab`` may stand before or after the verb; after it wins. Without it the only running
lab is meant, so that most command lines never name one. Completion asks the machine:
names of running labs, hosts and components of the lab at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from labnet.lab.state import StateDirectory

Command = Callable[..., Any]


@dataclass(slots=True)
class Invocation:
    """What stood before the verb."""

    lab: str | None = None
    debug: bool = False


def lab_option(command: Command) -> Command:
    """Add ``--lab NAME``; the command gets ``lab``: the name, or None for the only one."""
    return click.option(
        "--lab",
        metavar="NAME",
        callback=_lab_or_global,
        shell_complete=lab_names,
        help="Which lab, where more than one runs.",
    )(command)


def _lab_or_global(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    return value or ctx.ensure_object(Invocation).lab


def output_option(command: Command) -> Command:
    """Add ``-o json``; the command gets ``output``: "json" or None."""
    return click.option(
        "-o", "--output", type=click.Choice(["json"]), help="Print JSON, for programs."
    )(command)


def namespace_option(command: Command) -> Command:
    """Add ``-n NAMESPACE``; the command gets ``namespace``."""
    return click.option(
        "-n",
        "--namespace",
        default="default",
        metavar="NAMESPACE",
        help="The pod's or service's namespace; `default` unless given.",
    )(command)


def running_lab(name: str | None) -> StateDirectory:
    """Return the running lab ``name``, or the only one; raise ``LabnetError`` otherwise."""
    from labnet.lab import liveness

    return liveness.find(name)


# -- completion -------------------------------------------------------------------------


def lab_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the NAME of a lab."""
    from labnet.lab import liveness

    return [state.name for state, _ in liveness.labs() if state.name.startswith(incomplete)]


def host_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete a TARGET with the lab's hosts."""
    return _from_info(ctx, incomplete, lambda info: [host.name for host in info.hosts])


def component_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete a COMPONENT with those of the lab."""
    return _from_info(ctx, incomplete, lambda info: list(info.components))


def _from_info(ctx: click.Context, incomplete: str, names: Callable[[Any], list[str]]) -> list[str]:
    from labnet.errors import LabnetError
    from labnet.lab import state

    try:
        found = names(state.read_info(running_lab(ctx.params.get("lab"))))
    except LabnetError:  # no lab, no suggestions: completion must stay silent
        return []
    return [name for name in found if name.startswith(incomplete)]
