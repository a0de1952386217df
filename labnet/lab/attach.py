"""Running a command inside a lab, with this process's own stdin, stdout and terminal.

The descriptors themselves go to PID 1 with the request, so bytes never pass through
here: a pipe into `labnet exec` is a pipe into the command. Only with a terminal is there
a pseudo-terminal in between. Signals that reach this process are sent on; the exit code
is the command's, or 128 + signal.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator, Mapping
from types import FrameType

from labnet.lab import terminal
from labnet.sandbox.spec import ExecSpec
from labnet.sandbox.zygote import Started, Stdio, Zygote

STDIO: Stdio = (0, 1, 2)
SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def host_environment(own: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return what a command on a host gets: a clean environment, and this terminal's kind."""
    return (("PATH", PATH), ("HOME", "/root"), ("USER", "root"), *terminal_environment(own))


def terminal_environment(own: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return what of one's own environment describes the terminal and its language."""
    return tuple((name, own[name]) for name in ("TERM", "LANG", "COLORTERM") if name in own)


def has_terminal() -> bool:
    """Return whether a person sits at both ends of this process."""
    return os.isatty(0) and os.isatty(1)


def run(zygote: Zygote, spec: ExecSpec) -> int:
    """Run the command of ``spec``; return its exit code. ``spec.tty`` asks for a terminal.

    Raises ``NotFound`` for a host, container or program that is not there.
    """
    with _signals() as (woken, pending):
        if spec.tty:
            return _on_terminal(zygote, spec)
        started = zygote.exec(spec, STDIO)
        _until_ended(zygote, started, woken, pending)
    return _exit_code(zygote, started)


def _on_terminal(zygote: Zygote, spec: ExecSpec) -> int:
    master, slave = terminal.open_pair(like=0)
    try:
        try:
            started = zygote.exec(spec, (slave, slave, slave))
        finally:
            os.close(slave)
        with terminal.raw(0), terminal.following_size(0, master):
            terminal.converse(master, source=0, sink=1, ended=started.pidfd)
    finally:
        os.close(master)  # the command gets SIGHUP if it still runs
    return _exit_code(zygote, started)


def _until_ended(zygote: Zygote, started: Started, woken: int, pending: list[int]) -> None:
    poll = select.poll()
    poll.register(started.pidfd, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while not any(descriptor == started.pidfd for descriptor, _ in poll.poll()):
        os.read(woken, 512)
        while pending:
            zygote.signal(started.id, pending.pop(0))


def _exit_code(zygote: Zygote, started: Started) -> int:
    os.close(started.pidfd)
    ended = zygote.wait(started.id)
    return ended.exit.code if ended.exit else 0


@contextlib.contextmanager
def _signals() -> Iterator[tuple[int, list[int]]]:
    """Collect signals for the command; the descriptor becomes readable with each.

    A handler must not talk to PID 1 itself: it may interrupt a call that is under way.
    """
    pending: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        pending.append(number)

    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = {number: signal.signal(number, note) for number in _PASSED_ON}
    wakeup = signal.set_wakeup_fd(writing)
    try:
        yield reading, pending
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
