"""Forking from one thread, and what a child has to put right before it is itself.

A fork inherits too much: descriptors, signal dispositions, the parent's wake-up
descriptor. :func:`fork` returns twice like the system call; :func:`settle` is what the
child calls first. Until then signals are blocked, so a SIGTERM that arrives in between
ends the child as it should and does not run the parent's Python function in it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import termios
from collections.abc import Collection, Iterator

from labnet.errors import NotFound
from labnet.linux.libc import call
from labnet.linux.namespaces import NEWPID, own, setns, unshare

_SET_NAME, _SET_NO_NEW_PRIVS = 15, 38
_HIGHEST = 0xFFFFFFFF
HANDLED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
"""The signals for which PID 1 has functions."""

_NOT_FOUND = (errno.ENOENT, errno.ENOTDIR)


def fork() -> int:
    """Fork with all signals blocked in both; the child calls :func:`settle`.

    The parent's mask is restored here. Returns 0 in the child.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


@contextlib.contextmanager
def children_in(pidfd: int | None) -> Iterator[None]:
    """Let children forked in this block be born in the pid namespace of ``pidfd``.

    None: in a new one, whose PID 1 the first of them becomes.
    """
    home = own(NEWPID)
    try:
        if pidfd is None:
            unshare(NEWPID)
        else:
            setns(pidfd, NEWPID)
        yield
    finally:
        setns(home, NEWPID, "of before")
        os.close(home)


def settle(keep: Collection[int]) -> None:
    """In a fresh fork: close all but 0, 1, 2 and ``keep``, and be as Python is at start.

    The signals that PID 1 handles get their default again (SIGINT an exception, as
    Python has it), and all are unblocked.
    """
    signal.set_wakeup_fd(-1)
    for number in HANDLED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    close_all_but(keep)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def default_signals() -> None:
    """Forget what the caller's parent ignored (``nohup``), so that no child inherits it."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python starts


def close_all_but(keep: Collection[int]) -> None:
    """Close every descriptor from 3 on that is not in ``keep``."""
    first = 3
    for descriptor in sorted(set(keep)):
        if descriptor > first:
            _close_range(first, descriptor - 1)
        first = max(first, descriptor + 1)
    _close_range(first, _HIGHEST)


def _close_range(first: int, last: int) -> None:
    call("close_range", first, last, 0, what="close_range")


def stdio(stdin: int, stdout: int, stderr: int) -> None:
    """Make these three descriptors 0, 1 and 2; the originals are closed."""
    # Duplicates above 2 first: one of the three may itself be 0, 1 or 2.
    copies = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 3) for one in (stdin, stdout, stderr)]
    for number, descriptor in enumerate(copies):
        os.dup2(descriptor, number, inheritable=True)
        os.close(descriptor)
    for descriptor in {stdin, stdout, stderr} - {0, 1, 2}:
        os.close(descriptor)


def new_session(*, terminal: bool) -> None:
    """Become leader of a new session; with ``terminal``, stdin becomes its terminal."""
    os.setsid()
    if terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def set_name(name: str) -> None:
    """Set what ``ps`` and ``top`` show of a process that did not exec (15 bytes)."""
    call("prctl", _SET_NAME, name.encode()[:15], 0, 0, 0, what="process name")


def no_new_privileges() -> None:
    """Let no setuid or file-capability program give more than the caller has, for good."""
    call("prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0, what="no_new_privs")


def execute(argv: tuple[str, ...], env: dict[str, str]) -> None:
    """Replace this process by ``argv``, looked up in the PATH of ``env``.

    Raises ``NotFound`` if there is no such program, ``OSError`` if it cannot be run.
    Signals that Python ignores get their default back first.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        if error.errno in _NOT_FOUND and "/" not in argv[0]:
            where = "executable file not found in $PATH"
            raise NotFound(f'exec: "{argv[0]}": {where}', hint=_path_hint(env)) from error
        if error.errno in _NOT_FOUND:
            raise NotFound(f'exec: "{argv[0]}": no such file or directory') from error
        error.filename = f'exec: "{argv[0]}"'
        raise


def _path_hint(env: dict[str, str]) -> str:
    return f"PATH is {env.get('PATH', 'not set')}"
