"""The descriptors of one exec: three pipes, or one pseudo-terminal for all three streams.

Each pipe has an end that the process gets and an end that the kubelet keeps. Once the
process has its ends they must be closed here, or the end of its output would never be
seen: a pipe ends when the last writer is gone.
"""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import dataclass

from labnet.node.kubelet.websocket import STDERR, STDOUT

TIOCSPTLCK, TIOCGPTPEER = 0x40045431, 0x5441  # not in Python's termios


@dataclass(frozen=True, slots=True)
class Wish:
    """What the request asks for."""

    argv: tuple[str, ...]
    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False


@dataclass(slots=True)
class Pipes:
    """The process' ends, to be handed over, and ours."""

    stdio: tuple[int, int, int]
    stdin: int | None
    outputs: dict[int, int]  # our descriptor → channel
    tty: bool

    def close_theirs(self) -> None:
        """Close what the process has by now."""
        for fd in set(self.stdio):
            os.close(fd)

    def close_ours(self) -> None:
        """Close our ends: there will be no process, or it is over."""
        ours = set(self.outputs) | (set() if self.stdin is None else {self.stdin})
        for fd in ours:
            os.close(fd)
        self.outputs, self.stdin = {}, None


def pipes(wish: Wish, ptmx: str) -> Pipes:
    """Return fresh pipes, or one pseudo-terminal of the devpts that ``ptmx`` belongs to."""
    if wish.tty:
        master, slave = terminal(ptmx)
        return Pipes((slave, slave, slave), master, {master: STDOUT}, True)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    theirs, ours = os.pipe2(os.O_CLOEXEC) if wish.stdin else (os.dup(null), None)
    out, out_end = os.pipe2(os.O_CLOEXEC)
    err, err_end = os.pipe2(os.O_CLOEXEC)
    os.close(null)
    return Pipes((theirs, out_end, err_end), ours, {out: STDOUT, err: STDERR}, False)


def terminal(ptmx: str) -> tuple[int, int]:
    """Return both ends of a new pseudo-terminal made by opening ``ptmx``.

    Each container has a devpts of its own. A terminal of the node's would work too, but
    it has no name in the container: ``tty`` would say "not a tty". TIOCGPTPEER opens the
    other end without a path.
    """
    flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC
    master = os.open(ptmx, flags)
    try:
        fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))
        return master, fcntl.ioctl(master, TIOCGPTPEER, flags)
    except OSError:
        os.close(master)
        raise
