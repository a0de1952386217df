"""Making, joining and visiting namespaces.

A namespace lives as long as a process is in it, a descriptor of it is open, or a bind
mount shows it. ``unshare`` gives the caller new ones, ``setns`` moves it into existing
ones; with a pidfd it takes several at once from one process (Linux 5.8). Two details
decide how the zygote works:

* Both calls affect one thread. PID 1 has only one, so it may *visit* a namespace, make
  something there (a socket, a child) and come back: cheaper than a fork by milliseconds.
* ``CLONE_NEWPID`` does not move the caller. It decides where its next children are
  born, which is how PID 1 starts a container without an intermediate process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from labnet.linux.libc import call

NEWNS = 0x00020000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000

_NAMES = {NEWNS: "mnt", NEWUTS: "uts", NEWIPC: "ipc", NEWUSER: "user", NEWPID: "pid", NEWNET: "net"}


def names(flags: int) -> str:
    """Return e.g. ``net+uts`` for a set of namespace flags."""
    return "+".join(name for flag, name in _NAMES.items() if flags & flag)


def unshare(flags: int) -> None:
    """Give the calling process new namespaces of these kinds."""
    call("unshare", flags, what=f"new {names(flags)} namespace")


def setns(descriptor: int, flags: int, what: str = "") -> None:
    """Join the namespaces of a pidfd, or the one that ``descriptor`` is of."""
    call("setns", descriptor, flags, what=f"joining {names(flags)} namespace {what}".rstrip())


def own(kind: int) -> int:
    """Return a descriptor of the calling thread's namespace of ``kind`` (one flag)."""
    return os.open(f"/proc/thread-self/ns/{_NAMES[kind]}", os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def returning(flags: int) -> Iterator[None]:
    """Come back to today's namespaces of these kinds at the end of the block.

    For what a single-threaded process does elsewhere; mount and user namespaces are
    excluded, leaving them is not undone by returning.
    """
    kinds = [kind for kind in _NAMES if flags & kind]
    origins = [(own(kind), kind) for kind in kinds]
    try:
        yield
    finally:
        for descriptor, kind in origins:
            setns(descriptor, kind, "of before")
            os.close(descriptor)


def set_hostname(name: str) -> None:
    """Set the name of the caller's uts namespace."""
    encoded = name.encode()
    call("sethostname", encoded, len(encoded), what=f"hostname {name}")
