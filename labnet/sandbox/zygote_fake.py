"""A zygote without processes: what the kubelet's tests hold instead of PID 1.

It answers as :class:`labnet.sandbox.zygote.Zygote` does, from a dictionary. A test ends
a process with :meth:`FakeZygote.end` and sets failures in ``refuse``. Pidfds are reading
ends of pipes that become readable (end of file) at the end, as real ones do; sandboxes'
netns descriptors are of no namespace.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from queue import SimpleQueue

from labnet.clock import Clock, FakeClock, rfc3339_micro
from labnet.errors import AlreadyExists, LabnetError, NotFound, Unavailable
from labnet.sandbox.spec import ContainerSpec, ExecSpec, Exit, Process, SandboxSpec
from labnet.sandbox.zygote import Started, StartedSandbox, Stdio

KILL = 9


class FakeZygote:
    """In-memory twin of the zygote's pod half; not safe for threads except ``watch``."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.refuse: dict[str, LabnetError] = {}  # id, or argv[0] of an exec → what to raise
        self.exec_codes: dict[tuple[str, ...], int] = {}  # argv → exit code, at once
        self.sandboxes: dict[str, SandboxSpec] = {}
        self.containers: dict[str, ContainerSpec] = {}
        self.execs: list[ExecSpec] = []
        self.signals: list[tuple[str, int]] = []
        self._known: dict[str, Process] = {}
        self._writers: dict[str, int] = {}
        self._kept: dict[str, tuple[int, ...]] = {}
        self._watchers: list[tuple[str, SimpleQueue[Process | None]]] = []
        self._pids = iter(range(100, 1 << 22))

    def sandbox(self, spec: SandboxSpec) -> StartedSandbox:
        """Note a pause process."""
        process = Process(spec.id, "sandbox", spec.node, 0, "", labels=spec.labels)
        started = self._start(process)
        self.sandboxes[spec.id] = spec
        netns = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        return StartedSandbox(spec.id, started.pid, started.pidfd, netns)

    def container(self, spec: ContainerSpec, stdio: Stdio, keep: Sequence[int] = ()) -> Started:
        """Note an app process; the sandbox must run."""
        self._running(spec.sandbox, f"sandbox {spec.sandbox}")
        process = Process(
            spec.id, "container", spec.node, 0, "", sandbox=spec.sandbox, labels=spec.labels
        )
        started = self._start(process)
        self.containers[spec.id] = spec
        self._kept[spec.id] = tuple(os.dup(descriptor) for descriptor in keep)
        return started

    def exec(self, spec: ExecSpec, stdio: Stdio) -> Started:
        """Note an exec; it ends at once with its code in ``exec_codes``, if it has one."""
        node = spec.host
        if spec.container:
            node = self._running(spec.container, f"container {spec.container}").node
        if error := self.refuse.get(spec.argv[0]):
            raise error
        self.execs.append(spec)
        started = self._start(Process(f"exec/{next(self._pids)}", "exec", node, 0, ""))
        if (code := self.exec_codes.get(spec.argv)) is not None:
            self.end(started.id, code)
        return started

    def wait(self, id: str, timeout: float | None = None) -> Process:
        """Return an ended process; one that runs is ``Unavailable`` at once."""
        process = self._get(id)
        if process.exit is None:
            raise Unavailable(f"{id} is still running")
        if process.kind == "exec":
            self.forget(id)
        return process

    def signal(self, id: str, signal: int) -> None:
        """Note the signal; SIGKILL ends the process."""
        process = self._get(id)
        self.signals.append((id, signal))
        if signal == KILL and process.exit is None:
            self.end(id, 128 + KILL, KILL)

    def list(self, node: str = "") -> tuple[Process, ...]:
        """Return all processes of ``node``, or all."""
        return tuple(one for one in self._known.values() if node in ("", one.node))

    def fds(self, id: str) -> tuple[int, ...]:
        """Return duplicates of what was kept."""
        self._get(id)
        return tuple(os.dup(descriptor) for descriptor in self._kept.get(id, ()))

    def forget(self, id: str) -> None:
        """Drop a process, ending it first if it runs."""
        if (process := self._known.get(id)) is None:
            return
        if process.exit is None:
            self.end(id, 128 + KILL, KILL)
        del self._known[id]
        for descriptor in self._kept.pop(id, ()):
            os.close(descriptor)

    def watch(self, node: str) -> Iterator[Process]:
        """Yield each sandbox and container that ends from now on; blocks in between."""
        queue: SimpleQueue[Process | None] = SimpleQueue()
        self._watchers.append((node, queue))
        return iter(lambda: self._next(queue), None)

    def dial(
        self, address: str, port: int, *, host: str = "", sandbox: str = "", timeout: float = 5.0
    ) -> int:
        """Nothing listens in a fake: ``Unavailable``."""
        if sandbox:
            self._running(sandbox, f"sandbox {sandbox}")
        raise Unavailable(f"{address}:{port}: Connection refused")

    # -- what a test does ----------------------------------------------------------------

    def end(self, id: str, code: int = 0, signal: int = 0) -> None:
        """Let a process end."""
        end = Exit(code, signal, rfc3339_micro(self.clock.now()))
        process = replace(self._get(id), pid=0, exit=end)
        self._known[id] = process
        os.close(self._writers.pop(id))
        if process.kind != "exec":
            for node, queue in self._watchers:
                if node in ("", process.node):
                    queue.put(process)

    def close(self) -> None:
        """Let every watcher end with ``Unavailable``; release all descriptors."""
        for id in tuple(self._known):
            self.forget(id)
        for _, queue in self._watchers:
            queue.put(None)

    # -- inside --------------------------------------------------------------------------

    @staticmethod
    def _next(queue: SimpleQueue[Process | None]) -> Process:
        if (process := queue.get()) is None:
            raise Unavailable("the lab's PID 1 is gone")
        return process

    def _start(self, process: Process) -> Started:
        if error := self.refuse.get(process.id):
            raise error
        if process.id in self._known:
            raise AlreadyExists(f"{process.kind} {process.id} is there already")
        now = rfc3339_micro(self.clock.now())
        process = replace(process, pid=next(self._pids), started=now)
        reader, self._writers[process.id] = os.pipe()
        self._known[process.id] = process
        return Started(process.id, process.pid, reader)

    def _get(self, id: str) -> Process:
        if (process := self._known.get(id)) is None:
            raise NotFound(f"there is no process {id}")
        return process

    def _running(self, id: str, what: str) -> Process:
        process = self._known.get(id)
        if process is None or process.exit is not None:
            raise NotFound(f"{what} is not running")
        return process
