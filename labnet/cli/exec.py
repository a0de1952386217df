"""`labnet exec` and `labnet shell`: a command on a host, or in a pod's container."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from labnet.cli.options import host_names, lab_option, namespace_option, running_lab

if TYPE_CHECKING:
    from labnet.lab.state import LabInfo
    from labnet.sandbox.spec import ExecSpec
    from labnet.sandbox.zygote import Zygote


class TargetThenCommand(click.Command):
    """Options may stand around TARGET; from the command's first word on all is its own.

    So `labnet exec node1 curl -s …` works without `--` before the command.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``--`` before the second word that is no option and no option's value."""
        return super().parse_args(ctx, separated(args, self._taking_values(ctx)))

    def _taking_values(self, ctx: click.Context) -> set[str]:
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        return {word for one in options if not one.is_flag for word in one.opts}


def separated(args: list[str], taking_values: set[str]) -> list[str]:
    """Return ``args`` with ``--`` in front of what belongs to the command to run."""
    words = 0
    index = 0
    while index < len(args) and args[index] != "--":
        if args[index].startswith("-"):
            index += 1 if args[index] in taking_values else 0
        else:
            words += 1
            if words == 2:
                return [*args[:index], "--", *args[index:]]
        index += 1
    return args


def container_option(command: click.decorators.FC) -> click.decorators.FC:
    """Add ``-c CONTAINER``."""
    return click.option(
        "-c", "--container", metavar="CONTAINER", help="Which of the pod's containers."
    )(command)


@click.command("exec", cls=TargetThenCommand)
@click.argument("target", shell_complete=host_names)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@namespace_option
@container_option
@lab_option
def exec_(
    target: str, command: tuple[str, ...], namespace: str, container: str | None, lab: str | None
) -> int:
    """Run COMMAND on TARGET: a host's name, or pod/NAME.

    stdin, stdout and the exit code are the command's own; on a terminal it gets one.

    \b
    labnet exec node1 -- iptables-save -t nat
    labnet exec client -- curl -s 192.168.50.11:30001
    labnet exec pod/my-nginx-… -n default -- ip addr
    """
    return _run(target, command, namespace, container, lab)


@click.command(cls=TargetThenCommand)
@click.argument("target", shell_complete=host_names)
@namespace_option
@container_option
@lab_option
def shell(target: str, namespace: str, container: str | None, lab: str | None) -> int:
    """Open a shell on TARGET: a host's name, or pod/NAME.

    \b
    labnet shell node1
    labnet shell pod/my-nginx-…
    """
    from labnet.lab.attach import SHELL

    return _run(target, SHELL, namespace, container, lab)


def _run(
    target: str, argv: tuple[str, ...], namespace: str, container: str | None, lab: str | None
) -> int:
    from contextlib import closing

    from labnet.lab import attach
    from labnet.lab.control import connect
    from labnet.lab.state import read_info

    state = running_lab(lab)
    info = read_info(state)
    with closing(connect(state)) as zygote:
        spec = _spec(info, zygote, target, namespace, container)
        return attach.run(zygote, replace(spec, argv=argv, tty=attach.has_terminal()))


def _spec(
    info: LabInfo, zygote: Zygote, target: str, namespace: str, container: str | None
) -> ExecSpec:
    """Return where TARGET is and what a command there gets, without the command."""
    from labnet.errors import LabnetError
    from labnet.lab import attach, hosts
    from labnet.lab.target import parse_target
    from labnet.sandbox.spec import ExecSpec

    meant = parse_target(target)
    if meant.kind == "host":
        environment = attach.host_environment(os.environ)
        return ExecSpec((), host=hosts.named(info, meant.name), env=environment)
    if meant.kind == "service":
        raise LabnetError("a service runs nothing", hint="choose one of its pods: pod/NAME")
    from labnet.lab import containers

    found = containers.running(zygote.list(), namespace, meant.name, container)
    return ExecSpec((), container=found.id, env=attach.terminal_environment(os.environ))
