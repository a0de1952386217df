"""`labnet completion`: the script with which a shell completes verbs, labs and hosts."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_LABNET_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash: eval "$(labnet completion bash)"            in ~/.bashrc
    zsh:  eval "$(labnet completion zsh)"             in ~/.zshrc
    fish: labnet completion fish | source             in ~/.config/fish/config.fish
    """
    script = get_completion_class(shell)
    assert script is not None  # click.Choice has checked the name
    click.echo(script(ctx.find_root().command, {}, "labnet", _VARIABLE).source())
