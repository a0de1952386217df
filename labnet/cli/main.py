"""The ``labnet`` command: which verbs there are, and how every error reaches a person.

Verbs are imported when they are used: a process that only runs `labnet exec` pays for
click and one module, not for YAML, certificates or tables. Everything below the CLI
raises :class:`~labnet.errors.LabnetError`; only here does an error become text on
stderr and an exit code: 1 with a hint what to do next, 2 for a wrong command line,
130 after Ctrl-C.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from labnet.cli.options import Invocation
from labnet.errors import LabnetError

# verb: (module below labnet.cli, its command, one line for --help)
VERBS: dict[str, tuple[str, str, str]] = {
    "up": ("up", "up", "Start a lab and wait until it works."),
    "down": ("down", "down", "End labs."),
    "reset": ("down", "reset", "End and remove every lab of yours, dead or alive."),
    "ls": ("down", "ls", "List your labs."),
    "status": ("status", "status", "Show nodes, components, pods and services."),
    "exec": ("exec", "exec_", "Run a command on a host or in a pod."),
    "shell": ("exec", "shell", "Open a shell on a host or in a pod."),
    "kubectl": ("kubectl", "kubectl", "Run kubectl against a lab."),
    "kubeconfig": ("kubeconfig", "kubeconfig", "Print or merge a lab's kubeconfig."),
    "logs": ("logs", "logs", "Show what a component wrote."),
    "forward": ("forward", "forward", "Reach a service, pod or node from this machine."),
    "validate": ("scenarios", "validate", "Check a scenario file without starting it."),
    "scenarios": ("scenarios", "scenarios", "List the scenarios that come with labnet."),
    "doctor": ("doctor", "doctor", "Say what this machine can do and what it lacks."),
    "completion": ("completion", "completion", "Print the completion script for a shell."),
}


class Verbs(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the table, which is one to read."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command behind a verb."""
        if cmd_name not in VERBS:
            return None
        module, attribute, _ = VERBS[cmd_name]
        command = getattr(importlib.import_module(f"labnet.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a verb without importing any of them."""
        verbs = [
            CompletionItem(verb, help=text)
            for verb, (_, _, text) in VERBS.items()
            if verb.startswith(incomplete)
        ]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, _, text) in VERBS.items()])


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--lab", metavar="NAME", help="Which lab, where more than one runs.")
@click.option("--debug", is_flag=True, help="Show Python tracebacks.")
@click.version_option(package_name="labnet", message="labnet %(version)s")
@click.pass_context
def cli(ctx: click.Context, lab: str | None, debug: bool) -> None:
    """A Kubernetes cluster's network on one machine, out of real namespaces.

    \b
    labnet up                                 start the lab `my-nginx`
    labnet status                             see what runs where
    labnet kubectl get pods -o wide           use kubectl as anywhere else
    labnet exec node1 -- iptables-save -t nat look at a node
    labnet down                               and it is all gone
    """
    invocation = ctx.ensure_object(Invocation)
    invocation.lab = lab
    invocation.debug = debug


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line; return the exit code."""
    _open_what_is_closed()
    invocation = Invocation()
    try:
        return _exit_code(
            cli.main(args=args, prog_name="labnet", standalone_mode=False, obj=invocation)
        )
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130  # Ctrl-C is how one leaves `forward` or `logs -f`: nothing to explain
    except BrokenPipeError:
        # The reader went away (`labnet logs … | head`); nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (LabnetError, OSError) as error:
        return _explain(error, debug=invocation.debug)


def _open_what_is_closed() -> None:
    """Put /dev/null where a caller closed stdin, stdout or stderr (`<&-`).

    Otherwise the next socket or file gets that number, and is given to a command as if
    it were its input.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, this one


def _exit_code(result: object) -> int:
    return result if isinstance(result, int) else 0


def _explain(error: LabnetError | OSError, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, LabnetError):
        click.echo(f"{click.style('error:', fg='red', bold=True)} {error}", err=True)
        if error.hint:
            click.echo(f"{click.style('hint:', fg='cyan')} {error.hint}", err=True)
        return error.exit_code
    click.echo(f"{click.style('error:', fg='red', bold=True)} {error}", err=True)
    click.echo(f"{click.style('hint:', fg='cyan')} labnet --debug … shows where", err=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
