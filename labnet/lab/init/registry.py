"""What PID 1 knows: every process it started, until somebody says to forget it.

Entries survive the process: a kubelet that was away learns from ``list`` how its
containers ended. A process is *starting* until its fork reported; an exit in that time
is held back, because whether it is an ended process or a failed start is only known
with the report.

Nothing in here makes or ends processes; descriptors it holds are closed on
:meth:`Registry.remove`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from labnet.clock import Clock, rfc3339_micro
from labnet.errors import AlreadyExists, NotFound
from labnet.sandbox import protocol
from labnet.sandbox.spec import ComponentSpec, ContainerSpec, ExecSpec, Exit, Process, SandboxSpec
from labnet.sandbox.zygote import HostSpec

Spec = SandboxSpec | ContainerSpec | ExecSpec | ComponentSpec | HostSpec
OnEnd = Callable[[Process], None]
_ENDED_EXECS_MAX = 256


@dataclass(slots=True)
class Entry:
    """One process: what was asked for, what became of it, what is held for it."""

    process: Process
    spec: Spec
    pidfd: int = -1
    kept: tuple[int, ...] = ()
    starting: bool = True
    early: Exit | None = None
    on_end: list[OnEnd] = field(default_factory=list)

    @property
    def running(self) -> bool:
        """Whether the process runs, as far as PID 1 has heard."""
        return not self.starting and self.process.exit is None


class Registry:
    """All processes by id, and who wants to hear when they end."""

    def __init__(self, clock: Clock, exits: Path) -> None:
        self._clock = clock
        self._exits = exits
        self._entries: dict[str, Entry] = {}
        self._by_pid: dict[int, Entry] = {}
        self._watchers: dict[int, tuple[str, OnEnd]] = {}

    # -- finding -------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries.values()))

    def get(self, id: str) -> Entry:
        """Return an entry. Raises ``NotFound``."""
        if (entry := self._entries.get(id)) is None:
            raise NotFound(f"there is no process {id}")
        return entry

    def find(self, id: str) -> Entry | None:
        """Return an entry, if there is one."""
        return self._entries.get(id)

    def running(self, id: str, what: str) -> Entry:
        """Return the entry of a process that runs. Raises ``NotFound`` about ``what``."""
        entry = self._entries.get(id)
        if entry is None:
            raise NotFound(f"there is no {what}")
        if not entry.running:
            raise NotFound(f"{what} is not running")
        return entry

    def vacant(self, id: str, what: str) -> None:
        """Raise ``AlreadyExists`` if ``id`` is taken."""
        if id in self._entries:
            raise AlreadyExists(f"{what} is there already")

    # -- a process's life ----------------------------------------------------------------

    def add(self, process: Process, spec: Spec, pidfd: int) -> Entry:
        """Note a process that was just forked."""
        process = replace(process, started=rfc3339_micro(self._clock.now()))
        entry = Entry(process, spec, pidfd)
        self._entries[process.id] = entry
        self._by_pid[process.pid] = entry
        return entry

    def confirm(self, entry: Entry) -> None:
        """Its fork reported success; if it has ended since, that is news now."""
        entry.starting = False
        if entry.early is not None:
            self._end(entry, entry.early)

    def ended(self, pid: int, code: int, signal: int) -> None:
        """Process ``pid`` was reaped; pids of nobody's are of no interest."""
        if (entry := self._by_pid.pop(pid, None)) is None:
            return
        end = Exit(code, signal, rfc3339_micro(self._clock.now()))
        if entry.starting:
            entry.early = end
        else:
            self._end(entry, end)

    def _end(self, entry: Entry, end: Exit) -> None:
        entry.process = replace(entry.process, pid=0, exit=end)
        self._record(entry.process)
        callbacks, entry.on_end = entry.on_end, []
        for callback in callbacks:
            callback(entry.process)
        if entry.process.kind == "exec":
            self._limit_execs()
            return
        for node, watcher in tuple(self._watchers.values()):
            if node in ("", entry.process.node):
                watcher(entry.process)

    def _record(self, process: Process) -> None:
        """Leave a note for post-mortems; execs are too many and too short."""
        if process.kind != "exec":
            path = self._exits / process.id.replace("/", "_")
            path.write_bytes(protocol.dump({"process": protocol.plain(process)}))

    def _limit_execs(self) -> None:
        """Nobody may ever ask for an exec's end; the oldest make room."""
        done = [one for one in self if one.process.kind == "exec" and one.process.exit]
        for entry in done[:-_ENDED_EXECS_MAX]:
            self.remove(entry)

    def remove(self, entry: Entry) -> None:
        """Forget a process and close what is held for it; a running one stays a child."""
        self._entries.pop(entry.process.id, None)
        for pid in [pid for pid, one in self._by_pid.items() if one is entry]:
            del self._by_pid[pid]
        for descriptor in (entry.pidfd, *entry.kept):
            if descriptor >= 0:
                os.close(descriptor)
        entry.pidfd, entry.kept = -1, ()

    # -- watching ------------------------------------------------------------------------

    def watch(self, key: int, node: str, watcher: OnEnd) -> None:
        """Call ``watcher`` for every end on ``node`` ("" for all), until :meth:`unwatch`."""
        self._watchers[key] = (node, watcher)

    def unwatch(self, key: int) -> None:
        """Drop a watcher; an unknown key is no error."""
        self._watchers.pop(key, None)
