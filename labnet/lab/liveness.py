"""How labs are taken, found and recognised as dead: by a lock, never by a pid.

A pid may be reused and a file may be left behind; a lock may not. ``up`` takes a lock
that belongs to the open file description (``F_OFD_SETLK``), PID 1 of the lab inherits
that description, and the kernel frees it when the last process that has it is gone,
whatever ended it. A free lock therefore *means* a dead lab. ``F_OFD_GETLK`` asks without
taking, which ``flock`` cannot: a mere `labnet ls` must never make an `up` fail.

Removal renames the directory first: the name is free at once, and a half-removed
directory is never taken for a lab.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

from labnet.errors import AlreadyExists, LabnetError, NotFound, Unavailable
from labnet.lab.state import (
    StateDirectory,
    base_directory,
    check_name,
    is_name,
    owner,
    private_directory,
)

_GONE = ".gone-"
_WHOLE_FILE = struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)  # struct flock


def acquire(name: str, base: Path | None = None) -> tuple[StateDirectory, int]:
    """Take ``name`` for a new lab; return its empty directory and the lock's descriptor.

    The descriptor's open file description is what keeps the lab alive: hand it to
    PID 1. What a dead lab of that name left is removed first. Raises ``AlreadyExists``
    if the lab runs, or if another ``up`` of that name was faster.
    """
    base = base_directory() if base is None else base
    state = StateDirectory(base / check_name(name))
    while True:
        private_directory(base)
        private_directory(state.path)
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile: once more
            descriptor = _locked(state)
            if _still_named(descriptor, state.lock):
                _empty(state.path, keep=state.lock.name)
                return state, descriptor
            os.close(descriptor)


def _locked(state: StateDirectory) -> int:
    descriptor = os.open(state.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)
    except OSError:
        os.close(descriptor)
        raise AlreadyExists(
            f"lab {state.name} is already running",
            hint=f"end it with `labnet down {state.name}`, or start another with `--name NAME`",
        ) from None
    return descriptor


def _still_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _empty(directory: Path, keep: str) -> None:
    for entry in directory.iterdir():
        if entry.name == keep:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def running(state: StateDirectory) -> bool:
    """Return whether somebody holds the lab's lock."""
    try:
        descriptor = os.open(state.lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE)
    finally:
        os.close(descriptor)
    return int(struct.unpack_from("h", found)[0]) != fcntl.F_UNLCK


def labs(base: Path | None = None) -> Iterator[tuple[StateDirectory, bool]]:
    """Yield every lab of this user by name, with whether it is alive."""
    base = base_directory() if base is None else base
    if owner(base) != os.geteuid():
        return
    for path in sorted(base.iterdir()):
        if path.is_dir() and is_name(path.name):
            state = StateDirectory(path)
            yield state, running(state)


def find(name: str | None, base: Path | None = None, *, dead_too: bool = False) -> StateDirectory:
    """Return the running lab ``name``; without a name, the only one there is.

    With ``dead_too`` a lab that has died will do, where no running one is meant.
    """
    found = list(labs(base))
    alive = [state for state, is_alive in found if is_alive]
    dead = [state for state, is_alive in found if not is_alive]
    if name is not None:
        return _named(check_name(name), alive, dead, dead_too=dead_too)
    usable = alive or (dead if dead_too else [])
    if len(usable) == 1:
        return usable[0]
    if usable:
        raise LabnetError(
            f"there are {len(usable)} labs: {_names(usable)}", hint="say which: --lab NAME"
        )
    if dead:
        raise _died(dead[0])
    raise NotFound("no lab is running", hint="start one with `labnet up`")


def _named(
    name: str, alive: list[StateDirectory], dead: list[StateDirectory], *, dead_too: bool
) -> StateDirectory:
    for state in alive + dead if dead_too else alive:
        if state.name == name:
            return state
    for state in dead:
        if state.name == name:
            raise _died(state)
    hint = f"running: {_names(alive)}" if alive else "start one with `labnet up`"
    raise NotFound(f"no lab is called {name}", hint=hint)


def _died(state: StateDirectory) -> Unavailable:
    return Unavailable(
        f"lab {state.name} has died",
        hint=f"why: labnet logs --lab {state.name}; clear it away: labnet down {state.name}",
    )


def _names(states: list[StateDirectory]) -> str:
    return ", ".join(state.name for state in states)


def remove(state: StateDirectory) -> None:
    """Remove a dead lab's directory; the name is free again before the files are gone."""
    gone = state.path.with_name(f"{_GONE}{state.name}-{os.getpid()}")
    try:
        state.path.rename(gone)
    except FileNotFoundError:
        return
    shutil.rmtree(gone, ignore_errors=True)


def sweep(base: Path | None = None) -> None:
    """Remove what an interrupted :func:`remove` left, and the base if it is empty."""
    base = base_directory() if base is None else base
    if owner(base) != os.geteuid():
        return
    for path in base.glob(f"{_GONE}*"):
        shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        base.rmdir()
