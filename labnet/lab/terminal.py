"""A terminal on both sides: the person's own, in raw mode, and a new one in the lab.

With a terminal at hand, `exec` makes a pseudo-terminal: the command gets the slave side
as its controlling terminal, and this process copies bytes between the master and the
person's terminal. The person's terminal is put into raw mode, so that Ctrl-C travels as
a byte and becomes a signal in there, not here. A change of the window's size (SIGWINCH)
is passed on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import termios
import tty
from collections.abc import Iterator
from types import FrameType

_BLOCK = 64 * 1024


def open_pair(like: int) -> tuple[int, int]:
    """Return a new pseudo-terminal (master, slave) of the size of the terminal ``like``."""
    master, slave = os.openpty()
    copy_size(like, master)
    return master, slave


def copy_size(source: int, target: int) -> None:
    """Give the terminal ``target`` the window size of ``source``."""
    with contextlib.suppress(OSError):  # the window may be closing
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(target, termios.TIOCSWINSZ, size)


@contextlib.contextmanager
def raw(terminal: int) -> Iterator[None]:
    """Put ``terminal`` into raw mode for the duration of the block."""
    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextlib.contextmanager
def following_size(source: int, target: int) -> Iterator[None]:
    """Keep ``target`` as large as the terminal ``source`` for the duration of the block."""

    def resized(_: int, __: FrameType | None) -> None:
        copy_size(source, target)

    before = signal.signal(signal.SIGWINCH, resized)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def converse(master: int, source: int, sink: int, ended: int) -> None:
    """Copy ``source`` to ``master`` and ``master`` to ``sink`` until the command has ended.

    ``ended`` is a pidfd. What the command wrote last is still delivered; a background
    process that keeps the terminal open is not waited for.
    """
    poll = select.poll()
    for descriptor in (master, source, ended):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if source in ready and not _copy(source, master):
            poll.unregister(source)
        if master in ready and not _copy(master, sink):
            return
        if ended in ready and master not in ready:
            return


def _copy(source: int, sink: int) -> bool:
    try:
        block = os.read(source, _BLOCK)
    except OSError:  # EIO: nobody has the slave side open any more
        return False
    view = memoryview(block)
    while view:
        view = view[os.write(sink, view) :]
    return bool(block)
