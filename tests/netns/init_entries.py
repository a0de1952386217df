"""Functions that the tests' PID 1 calls in its forks."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path


def component(config: dict[str, object]) -> None:
    """Note each start in a file, then live until SIGTERM."""
    with Path(str(config["file"])).open("a") as file:
        file.write(f"{os.getpid()} {socket.gethostname()} {sorted(config)}\n")
    sys.stdout.write(f"started {config.get('greeting', '')}\n")
    signal.signal(signal.SIGTERM, _stop)
    signal.pause()


def _stop(number: int, frame: object) -> None:
    raise SystemExit(0)


def answering(config: dict[str, object]) -> None:
    """Accept connections on the listener ``api`` and say one's pid."""
    sockets = config["sockets"]
    assert isinstance(sockets, dict)
    listener = socket.socket(fileno=sockets["api"])
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(str(os.getpid()).encode())


def failing(config: dict[str, object]) -> None:
    """End at once."""
    raise ValueError("no good")


def where(config: dict[str, object]) -> dict[str, object]:
    """Say what this one-shot sees."""
    return {
        "given": config,
        "hostname": socket.gethostname(),
        "netns": sorted(path.name for path in Path("/run/netns").iterdir()),
        "links": sorted(name for _, name in socket.if_nameindex()),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())) - 1,
    }
