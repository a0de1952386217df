"""`labnet kubeconfig`: for one's own kubectl, k9s or client library."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from labnet.cli.options import host_names, lab_option, running_lab
from labnet.errors import LabnetError, NotFound


@click.command()
@click.option("--path", "only_path", is_flag=True, help="Print the name of the file instead.")
@click.option("--merge", is_flag=True, help="Write into ~/.kube/config (or $KUBECONFIG).")
@click.option(
    "--for",
    "node",
    metavar="NODE",
    shell_complete=host_names,
    help="With the API server's address as NODE, or a pod on it, sees it.",
)
@lab_option
def kubeconfig(only_path: bool, merge: bool, node: str | None, lab: str | None) -> None:
    """Print the lab's kubeconfig as YAML.

    \b
    kubectl --kubeconfig "$(labnet kubeconfig --path)" get pods
    labnet kubeconfig --merge && kubectl get nodes
    labnet kubeconfig --for node1       for programs that run inside the lab
    """
    if only_path + merge + (node is not None) > 1:
        raise click.UsageError("--path, --merge and --for exclude each other")
    state = running_lab(lab)
    if only_path:
        click.echo(state.kubeconfig)
    elif merge:
        _merge(state.kubeconfig)
    elif node is not None:
        click.echo(_yaml(_inside(lab, node)), nl=False)
    else:
        click.echo(_yaml(_parsed(state.kubeconfig.read_text(), state.kubeconfig) or {}), nl=False)


def _inside(lab: str | None, node: str) -> dict[str, Any]:
    from labnet.lab import kubeconfig as documents
    from labnet.lab.compose import API_PORT
    from labnet.lab.state import read_info

    state = running_lab(lab)
    hosts = {host.name: host for host in read_info(state).hosts}
    if node not in hosts:
        raise NotFound(f"lab {state.name} has no host {node!r}", hint=f"hosts: {', '.join(hosts)}")
    control_plane = next(host for host in hosts.values() if host.role == "control-plane")
    server = f"https://{control_plane.address}:{API_PORT}"
    return documents.document(state.name, server, state.pki)


def _merge(lab_file: Path) -> None:
    from labnet.lab import kubeconfig as documents

    target = _own_file()
    old = target.read_text() if target.exists() else ""
    new = documents.merged(_parsed(old, target), _parsed(lab_file.read_text(), lab_file) or {})
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if old:
        _write(target.with_name(f"{target.name}.before-labnet"), old)
    _write(target, _yaml(new))
    click.echo(f"{target}: context {new['current-context']} is there, and current")
    if old:
        click.echo(f"the file as it was: {target}.before-labnet")


def _own_file() -> Path:
    # $KUBECONFIG may list several files; kubectl writes new entries into the first.
    first = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(first) if first else Path.home() / ".kube" / "config"


def _parsed(text: str, path: Path) -> dict[str, Any] | None:
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as broken:
        raise LabnetError(f"{path} is not YAML: {broken}", hint="repair it first") from broken
    if found is not None and not isinstance(found, dict):
        raise LabnetError(f"{path} is not a kubeconfig", hint="move it away first")
    return found


def _yaml(document: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(document, sort_keys=False))


def _write(path: Path, text: str) -> None:
    # One step, and never readable by others: there is a private key in it.
    draft = path.with_name(f".{path.name}.labnet-{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)
