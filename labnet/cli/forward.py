"""`labnet forward`: a port of this machine that comes out inside the lab."""

from __future__ import annotations

import threading

import click

from labnet.cli.options import lab_option, namespace_option, running_lab


@click.command()
@click.argument("target")
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...")
@namespace_option
@lab_option
def forward(target: str, ports: tuple[str, ...], namespace: str, lab: str | None) -> None:
    """Listen on 127.0.0.1 and pass connections on to TARGET, until Ctrl-C.

    TARGET is svc/NAME (by its virtual IP, so kube-proxy chooses the pod), pod/NAME or a
    host's name. LOCAL may be left out: `:80` takes any free port.

    \b
    labnet forward svc/my-nginx 8080:80          then http://127.0.0.1:8080
    labnet forward pod/my-nginx-… :80
    labnet forward node1 10250
    """
    from labnet.lab import relay, routes
    from labnet.lab.control import connect
    from labnet.lab.state import read_info
    from labnet.lab.target import parse_ports, parse_target

    state = running_lab(lab)
    info = read_info(state)
    wanted = [parse_ports(text) for text in ports]
    ends = routes.destinations(state, info, parse_target(target), namespace, wanted)
    zygote = connect(state)
    for pair, end in zip(wanted, ends, strict=True):
        listener = relay.listen(pair.local)
        click.echo(f"http://127.0.0.1:{listener.getsockname()[1]} -> {target} {end}")
        serve = (listener, routes.dialling(zygote, end), _complain)
        threading.Thread(target=relay.serve, args=serve, daemon=True).start()
    threading.Event().wait()


def _complain(message: str) -> None:
    click.echo(f"{click.style('refused:', fg='yellow')} {message}", err=True)
