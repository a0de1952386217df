"""A runtime without processes, for tests of what stands on it.

It refuses what the zygote refuses: a container without its sandbox, an id twice. Tests
let containers end with :meth:`end`, and read what was asked in ``calls``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace

from labnet.clock import Clock, rfc3339_micro
from labnet.errors import AlreadyExists, NotFound, OpFailed
from labnet.sandbox.spec import ContainerSpec, ExecSpec, Exit, Process, SandboxSpec


class FakeExecution:
    """A process that has ended before anybody asks."""

    def __init__(self, exit_: Exit) -> None:
        self._exit = exit_
        self._read, write = os.pipe()
        os.close(write)  # end of file: readable from the start

    def fileno(self) -> int:
        """Return a descriptor that is readable."""
        return self._read

    def wait(self, timeout: float | None) -> Exit | None:
        """Return how it ended."""
        return self._exit

    def kill(self) -> None:
        """Do nothing: it has ended."""

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._read)


class FakeRuntime:
    """Keeps processes as values; see :class:`labnet.node.runtime.model.Runtime`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, Process] = {}
        self._listeners: list[Callable[[Process], None]] = []
        self.calls: list[tuple[str, str]] = []
        self.specs: dict[str, ContainerSpec] = {}
        self.ignores_sigterm: set[str] = set()
        self.refuses_to_start: dict[str, OpFailed] = {}  # container id prefix → error
        self.exec_code: Callable[[ExecSpec], int] = lambda _spec: 0
        self._pid = 100

    def processes(self) -> tuple[Process, ...]:
        """Return what was started and not forgotten."""
        return tuple(self._known.values())

    def run_sandbox(self, spec: SandboxSpec) -> int:
        """Note a sandbox; the descriptor is a file's, and no other sandbox's."""
        self._start(Process(spec.id, "sandbox", spec.node, 0, "", labels=spec.labels))
        return os.memfd_create(spec.id, os.MFD_CLOEXEC)

    def start_container(self, spec: ContainerSpec) -> Process:
        """Note a container."""
        sandbox = self._known.get(spec.sandbox)
        if sandbox is None or sandbox.exit is not None:
            raise NotFound(f"sandbox {spec.sandbox} is not running")
        for prefix, error in self.refuses_to_start.items():
            if spec.id.startswith(prefix):
                raise error
        self.specs[spec.id] = spec
        process = Process(
            spec.id, "container", spec.node, 0, "", sandbox=spec.sandbox, labels=spec.labels
        )
        return self._start(process)

    def _start(self, process: Process) -> Process:
        if process.id in self._known:
            raise AlreadyExists(f"{process.id} is there already")
        self._pid += 1
        started = replace(process, pid=self._pid, started=rfc3339_micro(self._clock.now()))
        self._known[process.id] = started
        self.calls.append(("start", process.id))
        return started

    def signal(self, process_id: str, number: int) -> None:
        """End the process, unless it ignores SIGTERM."""
        process = self._known.get(process_id)
        if process is None or process.exit is not None:
            return
        self.calls.append((signal.Signals(number).name, process_id))
        if number == signal.SIGTERM and process_id in self.ignores_sigterm:
            return
        self.end(process_id, 128 + number, number)

    def end(self, process_id: str, code: int, number: int = 0) -> None:
        """Let a process end with ``code``; with a sandbox end its containers too."""
        for container in self.processes():
            if container.sandbox == process_id and container.exit is None:
                self.end(container.id, 137, 9)
        ended = replace(
            self._known[process_id],
            pid=0,
            exit=Exit(code, number, rfc3339_micro(self._clock.now())),
        )
        self._known[process_id] = ended
        for call in self._listeners:
            call(ended)

    def forget(self, process_id: str) -> None:
        """Drop an ended process."""
        process = self._known.get(process_id)
        if process is not None and process.exit is not None:
            del self._known[process_id]

    def exec(self, spec: ExecSpec, stdio: tuple[int, int, int]) -> FakeExecution:
        """Return a process that ended with what ``exec_code`` says."""
        self.calls.append(("exec", " ".join(spec.argv)))
        return FakeExecution(Exit(self.exec_code(spec), 0, rfc3339_micro(self._clock.now())))

    def ptmx(self, process_id: str) -> str:
        """Return the machine's own."""
        return "/dev/ptmx"

    def on_exit(self, call: Callable[[Process], None]) -> None:
        """Remember whom to tell."""
        self._listeners.append(call)

    def forget_listeners(self) -> None:
        """Do what the death of a kubelet does."""
        self._listeners.clear()
