"""What PID 1 is told when it starts, and what the host side gets back.

A :class:`Boot` crosses from the command line to a freshly executed interpreter as JSON,
with its descriptors beside it; nothing of the caller's memory, threads or environment
comes along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labnet.sandbox.protocol import dump, load


@dataclass(frozen=True, slots=True)
class Boot:
    """One lab's start.

    ``lock`` is the descriptor whose open file description holds the lab's lock; PID 1
    and the hosts keep it, so that a free lock means that all of the lab is gone.
    ``alive`` is the reading end of a pipe: until ``ready`` is said on the control
    socket, PID 1 ends when all writers have gone. ``listeners`` are listening sockets by
    name, kept across restarts of the components that serve them. ``preload`` are modules
    that PID 1 imports so that its forks share them, in the order in which they are
    needed; ``module:function`` is called as well. ``keep``: paths of the machine that
    hosts must see although they lie below /run, /tmp, /var/lib or /var/log (the Python
    installation and labnet itself always are).
    """

    name: str
    state: Path
    lock: int | None = None
    alive: int | None = None
    listeners: Mapping[str, int] = field(default_factory=dict)
    preload: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    def descriptors(self) -> tuple[int, ...]:
        """Return all descriptors that belong to this record, lock and pipe first."""
        single = (self.lock, self.alive)
        return (*(one for one in single if one is not None), *self.listeners.values())


def sent(boot: Boot) -> tuple[bytes, tuple[int, ...]]:
    """Return ``boot`` as a message and the descriptors to send with it."""
    message = {
        "name": boot.name,
        "state": str(boot.state),
        "lock": boot.lock is not None,
        "alive": boot.alive is not None,
        "listeners": list(boot.listeners),
        "preload": list(boot.preload),
        "keep": list(boot.keep),
    }
    return dump(message), boot.descriptors()


def received(payload: bytes, fds: tuple[int, ...]) -> Boot:
    """Return the record that :func:`sent` wrote, with the descriptors it has here."""
    message = load(payload)
    left = iter(fds)
    lock = next(left) if message["lock"] else None
    alive = next(left) if message["alive"] else None
    return Boot(
        name=message["name"],
        state=Path(message["state"]),
        lock=lock,
        alive=alive,
        listeners={name: next(left) for name in message["listeners"]},
        preload=tuple(message["preload"]),
        keep=tuple(message["keep"]),
    )


@dataclass(frozen=True, slots=True)
class Launched:
    """A PID 1 that answers on its control socket: its pid and pidfd on the host."""

    pid: int
    pidfd: int
    control: Path
