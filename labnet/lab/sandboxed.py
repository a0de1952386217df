"""Raising a lab's sandbox: from taking its name to hosts that wait for components.

Three things happen at once here. PID 1 is a fresh interpreter and takes a tenth of a
second to answer; certificates need the cryptography package, which takes as long to
import; so the second goes into a thread while the first starts.

Whatever is made is entered in ``undo`` at once, in the order that takes it down
backwards: end PID 1, then remove the directory, which frees the name.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from labnet.errors import LabnetError
from labnet.lab import liveness
from labnet.lab.compose import API_SOCKET, Composition
from labnet.lab.control import connect
from labnet.lab.init.boot import Boot, Launched
from labnet.lab.init.launch import launch
from labnet.lab.progress import Timeline
from labnet.lab.relay import listen
from labnet.lab.state import StateDirectory, wait_ended
from labnet.sandbox.zygote import Zygote
from labnet.scenario.model import Lab

_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A PID 1 that answers and has its hosts; ``alive`` is our end of its pipe."""

    state: StateDirectory
    launched: Launched
    zygote: Zygote
    api_port: int


def raise_sandbox(
    lab: Lab, plan: Composition, source: Path, api_port: int, timeline: Timeline, undo: ExitStack
) -> Sandbox:
    """Start PID 1 of ``lab`` with its hosts and certificates.

    Raises ``AlreadyExists`` if the name is taken, ``Unsupported`` if this machine does
    not allow it. ``undo`` takes everything back, whether or not this returned.
    """
    with ExitStack() as ours:
        state, lock = liveness.acquire(lab.name)
        ours.callback(os.close, lock)  # PID 1 has a duplicate of its own by then
        undo.callback(liveness.sweep)
        undo.callback(liveness.remove, state)
        _furnish(state, source)
        beside = ours.enter_context(ThreadPoolExecutor(1))
        certificates = beside.submit(_make_certificates, lab, state, timeline)
        listener = ours.enter_context(listen(api_port))
        launched = _launch(state, lock, listener.fileno(), plan, timeline, undo)
        zygote = connect(state)
        undo.callback(zygote.close)
        with timeline.step("Hosts"):
            zygote.hosts(plan.hosts)
        certificates.result()
        return Sandbox(state, launched, zygote, listener.getsockname()[1])


def _furnish(state: StateDirectory, source: Path) -> None:
    for directory in (state.pki, state.logs):
        directory.mkdir(mode=0o700)
    shutil.copyfile(source, state.scenario)


def _make_certificates(lab: Lab, state: StateDirectory, timeline: Timeline) -> None:
    with timeline.step("Certificates"):
        from labnet.lab import pki

        pki.write_pki(state.pki, pki.requests_for(lab))
        pki.write_tokens(state.pki / "tokens.csv")


def _launch(
    state: StateDirectory,
    lock: int,
    listener: int,
    plan: Composition,
    timeline: Timeline,
    undo: ExitStack,
) -> Launched:
    alive, ours = os.pipe2(os.O_CLOEXEC)
    undo.callback(os.close, ours)
    boot = Boot(
        name=state.name,
        state=state.path,
        lock=lock,
        alive=alive,
        listeners={API_SOCKET: listener},
        preload=plan.preload,
    )
    with timeline.step("Sandbox"):
        try:
            launched = launch(boot)
        finally:
            os.close(alive)
    undo.callback(end, launched.pidfd)
    return launched


def end(pidfd: int) -> None:
    """Kill PID 1 and wait until the kernel has ended everything below it."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    ended = wait_ended(pidfd, _END_SECONDS)
    os.close(pidfd)
    if not ended:
        raise LabnetError("PID 1 of the lab does not end", hint="labnet reset")


@contextmanager
def undoing() -> Iterator[ExitStack]:
    """Give a stack that is unwound on any error, and not interrupted while it is."""
    undo = ExitStack()
    try:
        yield undo
    except BaseException:
        signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            undo.close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
