"""What the kubelet asks of a container runtime: CRI in a dozen lines.

A runtime starts sandboxes and containers from specs, remembers what it started until
it is told to forget, and tells of every end. It decides nothing: restarts, grace
periods and back-off are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from labnet.sandbox.spec import ContainerSpec, ExecSpec, Exit, Process, SandboxSpec


class Execution(Protocol):
    """One further process in a running container."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the process ends."""

    def wait(self, timeout: float | None) -> Exit | None:
        """Return how it ended, None if it still runs after ``timeout`` seconds."""

    def kill(self) -> None:
        """End it with SIGKILL; fine if it has ended."""

    def close(self) -> None:
        """Let go of it; the runtime forgets it once it has ended."""


class Runtime(Protocol):
    """A node's container runtime. All methods from any thread.

    Every call may raise ``Unavailable``; what is not there raises ``NotFound``.
    """

    def processes(self) -> tuple[Process, ...]:
        """Return every sandbox and container of this node, ended ones too."""

    def run_sandbox(self, spec: SandboxSpec) -> int:
        """Start a pause process; return its network namespace, open, for the caller to close."""

    def start_container(self, spec: ContainerSpec) -> Process:
        """Start a container; its output goes to its log file."""

    def signal(self, process_id: str, number: int) -> None:
        """Send a signal to a sandbox's or container's first process; fine if it has ended."""

    def forget(self, process_id: str) -> None:
        """Drop an ended process from the list; fine if it is not there."""

    def exec(self, spec: ExecSpec, stdio: tuple[int, int, int]) -> Execution:
        """Start a further process with these descriptors as its standard ones."""

    def ptmx(self, process_id: str) -> str:
        """Return the path of a running container's /dev/pts/ptmx, as the kubelet sees it."""

    def on_exit(self, call: Callable[[Process], None]) -> None:
        """Have ``call`` called with every sandbox or container that ends."""
