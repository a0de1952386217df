"""Pod sandboxes, containers and execs: the zygote's half of PID 1.

A pause process is spawned, not forked: PID 1 visits fresh namespaces, spawns ``sleep``
there (which shares its memory until the exec, so nothing is copied) and comes back. A
container is forked into a new pid namespace and becomes what its spec says on its own
time; the reply waits for its report.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from labnet.errors import LabnetError
from labnet.lab.init import become
from labnet.lab.init.forks import Forked, Report, Task, start
from labnet.lab.init.hosts import PAUSE, write_setting
from labnet.lab.init.loop import Loop
from labnet.lab.init.preload import Preload
from labnet.lab.init.registry import Entry, Registry
from labnet.lab.init.supervisor import host_id
from labnet.linux.namespaces import (
    NEWIPC,
    NEWNET,
    NEWUTS,
    own,
    returning,
    set_hostname,
    setns,
    unshare,
)
from labnet.linux.process import children_in
from labnet.sandbox.spec import ContainerSpec, ExecSpec, Process, SandboxSpec
from labnet.sandbox.zygote import Stdio

OnStarted = Callable[[Report, Entry], None]


class Pods:
    """Starts what a kubelet asks for."""

    def __init__(self, loop: Loop, registry: Registry, preload: Preload) -> None:
        self._loop = loop
        self._registry = registry
        self._preload = preload
        self._execs = count(1)

    def sandbox(self, spec: SandboxSpec) -> tuple[Entry, int]:
        """Start a pause process; return its entry and a descriptor of its netns."""
        self._registry.vacant(spec.id, f"sandbox {spec.id}")
        host = self._host(spec.node)
        with returning(NEWNET | NEWIPC | NEWUTS):
            _enter_sandbox(spec, host)
            pid = _spawn_pause()
            netns = own(NEWNET)
        process = Process(spec.id, "sandbox", spec.node, pid, "", labels=spec.labels)
        entry = self._registry.add(process, spec, os.pidfd_open(pid))
        self._registry.confirm(entry)
        return entry, netns

    def container(
        self, spec: ContainerSpec, stdio: Stdio, kept: Sequence[int], on_started: OnStarted
    ) -> None:
        """Start an app process in a new pid namespace; ``kept`` are its entry's now."""
        self._registry.vacant(spec.id, f"container {spec.id}")
        sandbox = self._registry.running(spec.sandbox, f"sandbox {spec.sandbox}")
        host = self._host(spec.node)
        task = partial(become.container, spec, self._program(spec), sandbox.pidfd, host, stdio)
        process = Process(
            spec.id, "container", spec.node, 0, "", sandbox=spec.sandbox, labels=spec.labels
        )
        inherited = (*stdio, sandbox.pidfd, host)
        self._fork(process, spec, task, inherited, on_started, born_in=None).kept = tuple(kept)

    def exec(self, spec: ExecSpec, stdio: Stdio, on_started: OnStarted) -> None:
        """Start a further process in a container, or on a host."""
        number = f"exec/{next(self._execs)}"
        if spec.host:
            host = self._host(spec.host)
            task = partial(become.exec_on_host, spec, self._program(spec), host, stdio)
            process = Process(number, "exec", spec.host, 0, "")
            self._fork(process, spec, task, (*stdio, host), on_started)
            return
        target = self._registry.running(spec.container, f"container {spec.container}")
        if not isinstance(target.spec, ContainerSpec):
            raise LabnetError(f"{spec.container} is not a container")
        task = partial(
            become.exec_in_container, spec, self._program(spec), target.spec, target.pidfd, stdio
        )
        process = Process(
            number, "exec", target.process.node, 0, "", sandbox=target.process.sandbox
        )
        inherited = (*stdio, target.pidfd)
        self._fork(process, spec, task, inherited, on_started, born_in=target.pidfd)

    def _program(self, spec: ContainerSpec | ExecSpec) -> become.Program:
        module, _, _ = spec.program.partition(":")
        self._preload.need(f"{become.PROGRAMS}.{module}")
        return become.built_in(spec.program)

    def _host(self, name: str) -> int:
        return self._registry.running(host_id(name), f"host {name}").pidfd

    def _fork(
        self,
        process: Process,
        spec: ContainerSpec | ExecSpec,
        task: Task,
        inherited: Sequence[int],
        on_started: OnStarted,
        born_in: int | None = -1,
    ) -> Entry:
        """Fork ``task``; ``born_in``: -1 PID 1's own pid namespace, None a new one."""

        def reported(report: Report) -> None:
            on_started(report, entry)
            if "error" in report:
                self._registry.remove(entry)
            else:
                self._registry.confirm(entry)

        forked = self._forked(task, inherited, reported, born_in)
        entry = self._registry.add(replace(process, pid=forked.pid), spec, forked.pidfd)
        return entry

    def _forked(
        self,
        task: Task,
        inherited: Sequence[int],
        reported: Callable[[Report], None],
        born_in: int | None,
    ) -> Forked:
        if born_in == -1:
            return start(self._loop, task, inherited, reported)
        with children_in(born_in):
            return start(self._loop, task, inherited, reported)


def _enter_sandbox(spec: SandboxSpec, host: int) -> None:
    """Give PID 1, for a moment, the namespaces that the sandbox is to hold."""
    if spec.host_network:
        setns(host, NEWNET | NEWUTS, f"of {spec.node}")
        unshare(NEWIPC)
        return
    unshare(NEWNET | NEWIPC | NEWUTS)
    set_hostname(spec.hostname)
    for name, value in spec.sysctls:
        path = name.replace(".", "/")
        if path.startswith("net/"):
            write_setting(path.removeprefix("net/"), value)
        else:
            Path("/proc/sys", path).write_text(value)


def _spawn_pause() -> int:
    """Start a process that does nothing, without copying PID 1's memory."""
    return os.posix_spawn(
        PAUSE,
        ("pause", "infinity"),
        {},
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGTERM, signal.SIGCHLD, signal.SIGINT),
    )
