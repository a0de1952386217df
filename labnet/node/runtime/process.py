"""The process runtime: sandboxes and containers as processes of the lab's PID 1.

The kubelet has threads and never forks; it asks the zygote. What the zygote told once
is remembered here, so that a look at a pod costs no round trip; a pidfd per process
tells of its end. After a restart the list comes back from the zygote and the log pipes
with it: the pods have not noticed.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Lock, Thread

from labnet.clock import Clock, rfc3339_micro
from labnet.errors import NotFound, Unavailable
from labnet.node.runtime import logs
from labnet.node.runtime.pump import LogPump
from labnet.sandbox.spec import ContainerSpec, ExecSpec, Exit, Process, SandboxSpec
from labnet.sandbox.zygote import Processes, Started

Listener = Callable[[Process], None]


class ProcessExecution:
    """A further process in a container; see ``labnet.node.runtime.model.Execution``."""

    def __init__(self, zygote: Processes, started: Started) -> None:
        self._zygote, self._started = zygote, started
        self._exit: Exit | None = None

    def fileno(self) -> int:
        """Return its pidfd."""
        return self._started.pidfd

    def wait(self, timeout: float | None) -> Exit | None:
        """Return how it ended, None if it still runs after ``timeout`` seconds."""
        if self._exit is None:
            milliseconds = None if timeout is None else max(0, int(timeout * 1000))
            poll = select.poll()
            poll.register(self._started.pidfd, select.POLLIN)
            if poll.poll(milliseconds):
                self._exit = self._zygote.wait(self._started.id).exit
        return self._exit

    def kill(self) -> None:
        """End it with SIGKILL."""
        try:
            self._zygote.signal(self._started.id, 9)
        except NotFound:
            return

    def close(self) -> None:
        """Close the pidfd and have the zygote forget the process."""
        os.close(self._started.pidfd)
        if self._exit is None:
            self._zygote.forget(self._started.id)


class ProcessRuntime:
    """A node's container runtime over the zygote; see ``labnet.node.runtime.model``."""

    def __init__(
        self, zygote: Processes, node: str, clock: Clock, pump: LogPump, log_root: Path = logs.ROOT
    ) -> None:
        self._zygote, self._node, self._clock = zygote, node, clock
        self._pump, self._log_root = pump, log_root
        self._lock = Lock()
        self._known: dict[str, Process] = {}
        self._listeners: list[Listener] = []
        self._epoll = select.epoll()
        self._pidfds: dict[int, str] = {}
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)

    def start(self) -> None:
        """Take over what runs already, and begin to wait for ends."""
        for process in self._zygote.list(self._node):
            if process.kind not in ("sandbox", "container"):
                continue
            with self._lock:
                self._known[process.id] = process
            if process.kind == "container":
                self._resume_log(process)
            if process.exit is None:
                self._watch_adopted(process)
        Thread(target=self._await_ends, name="exits", daemon=True).start()

    def processes(self) -> tuple[Process, ...]:
        """Return what was started and not forgotten."""
        with self._lock:
            return tuple(self._known.values())

    def run_sandbox(self, spec: SandboxSpec) -> int:
        """Start a pause process; return its network namespace, open."""
        started = self._zygote.sandbox(spec)
        self._remember(
            Process(spec.id, "sandbox", spec.node, started.pid, self._now(), labels=spec.labels),
            started.pidfd,
        )
        return started.netns

    def start_container(self, spec: ContainerSpec) -> Process:
        """Start a container whose output goes to its log file."""
        out, out_end = os.pipe2(os.O_CLOEXEC)
        err, err_end = os.pipe2(os.O_CLOEXEC)
        try:
            stdio = (self._null, out_end, err_end)
            started = self._zygote.container(spec, stdio, keep=(out, err))
        except BaseException:
            os.close(out)
            os.close(err)
            raise
        finally:
            os.close(out_end)
            os.close(err_end)
        self._pump.add(logs.path_of(self._log_root, spec.labels), out, err)
        process = Process(
            spec.id,
            "container",
            spec.node,
            started.pid,
            self._now(),
            sandbox=spec.sandbox,
            labels=spec.labels,
        )
        self._remember(process, started.pidfd)
        return process

    def signal(self, process_id: str, number: int) -> None:
        """Send a signal; fine if the process has ended or is unknown."""
        try:
            self._zygote.signal(process_id, number)
        except NotFound:
            self._ended(process_id)

    def forget(self, process_id: str) -> None:
        """Drop an ended process."""
        self._zygote.forget(process_id)
        with self._lock:
            self._known.pop(process_id, None)

    def exec(self, spec: ExecSpec, stdio: tuple[int, int, int]) -> ProcessExecution:
        """Start a further process in a container."""
        return ProcessExecution(self._zygote, self._zygote.exec(spec, stdio))

    def ptmx(self, process_id: str) -> str:
        """Return the path through the container's first process."""
        with self._lock:
            known = self._known.get(process_id)
        if known is None or known.exit is not None:
            raise NotFound(f"container {process_id} is not running")
        return f"/proc/{known.pid}/root/dev/pts/ptmx"

    def on_exit(self, call: Listener) -> None:
        """Have ``call`` called with every process that ends."""
        self._listeners.append(call)

    def _now(self) -> str:
        return rfc3339_micro(self._clock.now())

    def _remember(self, process: Process, pidfd: int) -> None:
        with self._lock:
            self._known[process.id] = process
            self._pidfds[pidfd] = process.id
        self._epoll.register(pidfd, select.EPOLLIN)

    def _watch_adopted(self, process: Process) -> None:
        """Open a pidfd by number; a pid that meanwhile is another's has ended for us."""
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError:
            self._ended(process.id)
            return
        self._remember(process, pidfd)

    def _resume_log(self, process: Process) -> None:
        try:
            out, err = self._zygote.fds(process.id)
        except (NotFound, ValueError):
            return  # it was started without a log
        self._pump.add(logs.path_of_process(self._log_root, process), out, err)

    def _await_ends(self) -> None:
        while True:
            for pidfd, _ in self._epoll.poll():
                self._epoll.unregister(pidfd)
                os.close(pidfd)
                with self._lock:
                    process_id = self._pidfds.pop(pidfd)
                self._ended(process_id)

    def _ended(self, process_id: str) -> None:
        """Note the end of a process and tell whoever listens."""
        with self._lock:
            known = self._known.get(process_id)
        if known is None or known.exit is not None:
            return
        try:
            ended = self._zygote.wait(process_id)
        except (NotFound, Unavailable):
            ended = self._lost(known)
        with self._lock:
            self._known[process_id] = ended
        for call in self._listeners:
            call(ended)

    def _lost(self, process: Process) -> Process:
        """Return an end for a process that the zygote no longer knows: killed."""
        return replace(process, pid=0, exit=Exit(137, 9, self._now()))
