"""Ending labs: one request to PID 1, and the kernel does the rest.

When PID 1 of a pid namespace ends, the kernel kills every process in it; with the last
of them go the network namespaces, and with these every link, route and rule. So `down`
asks, waits until the lock is free and removes the directory. A PID 1 that does not
answer is killed: it is found by the lock it holds, never by a pid out of a file.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

from labnet.clock import Clock
from labnet.errors import LabnetError, NotFound
from labnet.lab import liveness
from labnet.lab.control import connect
from labnet.lab.state import StateDirectory, check_name

_PATIENCE = 5.0  # seconds until a PID 1 that was asked is killed
_LOOK_AGAIN = 0.003


def down(state: StateDirectory, clock: Clock) -> None:
    """End the lab if it runs, and remove what it has on the disk."""
    if liveness.running(state) and not (_asked(state) and _ended(state, clock)):
        _kill_holders(state)
        if not _ended(state, clock):
            raise LabnetError(
                f"lab {state.name} does not end", hint=f"who holds it: fuser {state.lock}"
            )
    liveness.remove(state)


def chosen(
    names: tuple[str, ...], *, every: bool, base: Path | None = None
) -> list[StateDirectory]:
    """Return the labs that ``names`` mean, dead ones included; without names, the only one.

    Raises ``NotFound`` for a name that is none, before any lab is ended.
    """
    known = {state.name: state for state, _ in liveness.labs(base)}
    if every:
        return list(known.values())
    if not names:
        return [liveness.find(None, base, dead_too=True)]
    for name in names:
        if check_name(name) not in known:
            hint = f"there are: {', '.join(known)}" if known else "no lab is running"
            raise NotFound(f"no lab is called {name}", hint=hint)
    return [known[name] for name in dict.fromkeys(names)]


def _asked(state: StateDirectory) -> bool:
    try:
        with contextlib.closing(connect(state)) as zygote:
            zygote.shutdown()
    except LabnetError:
        return False
    return True


def _ended(state: StateDirectory, clock: Clock) -> bool:
    pause = threading.Event()
    deadline = clock.monotonic() + _PATIENCE
    while liveness.running(state):
        if clock.monotonic() > deadline:
            return False
        pause.wait(_LOOK_AGAIN)
    return True


def _kill_holders(state: StateDirectory) -> None:
    for pid in _holders(state.lock):
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(pid)
            with contextlib.ExitStack() as closing:
                closing.callback(os.close, pidfd)
                if _holds(pid, state.lock):  # still the same process
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _holders(lock: Path) -> Iterator[int]:
    return (pid for entry in Path("/proc").iterdir() if (pid := _pid(entry)) and _holds(pid, lock))


def _pid(entry: Path) -> int:
    return int(entry.name) if entry.name.isdigit() and int(entry.name) != os.getpid() else 0


def _holds(pid: int, lock: Path) -> bool:
    """Whether ``pid`` has the lock's file open; processes we may not look into do not."""
    with contextlib.suppress(OSError):
        wanted = lock.stat()
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.path.samestat(descriptor.stat(), wanted):
                    return True
    return False
