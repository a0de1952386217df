"""A PID 1 for tests, as root and as an ordinary user, and a look at what it leaves.

As root, the ordinary user's lab is started by a small process under that user's id; the
test talks to its control socket all the same. PID 1 lives as long as the writing end of
its ``alive`` pipe, so it ends with the test run whatever happens.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from labnet.lab.init.boot import Boot
from labnet.lab.init.launch import launch
from labnet.linux.seqpacket import Client
from labnet.sandbox.security import DEFAULT_CAPABILITIES
from labnet.sandbox.spec import ContainerSpec, ExecSpec, Mount, Process, SandboxSpec
from labnet.sandbox.zygote import HostSpec, Zygote

ORDINARY = 65534
ROOT = Path(__file__).parent.parent.parent
USERS = ("root", "ordinary") if os.geteuid() == 0 else ("ordinary",)
MOUNTS = (
    Mount("bind", "/usr", "/usr", ("ro", "nodev", "rec")),
    *(Mount("symlink", f"/{name}", f"usr/{name}") for name in ("bin", "sbin", "lib", "lib64")),
    Mount("proc", "/proc", options=("nosuid", "nodev", "noexec")),
    Mount("tmpfs", "/dev", options=("nosuid", "mode=755")),
    *(Mount("bind", f"/dev/{name}", f"/dev/{name}") for name in ("null", "tty")),
    Mount("devpts", "/dev/pts", options=("nosuid", "noexec", "newinstance", "ptmxmode=0666")),
    Mount("file", "/etc/hosts", content="127.0.0.1\tlocalhost\n"),
)
_START = """
import json, os, sys
from pathlib import Path
from labnet.lab.init.boot import Boot
from labnet.lab.init.launch import launch
found = json.loads(sys.argv[1])
found["state"] = Path(found["state"])
print(launch(Boot(**found)).pid)
"""


@dataclass(frozen=True, slots=True)
class Lab:
    """A running PID 1."""

    zygote: Zygote
    pid: int  # on this side
    pidfd: int
    state: Path
    user: str
    alive: int  # the writing end

    def run(self, *argv: str, host: str = "", container: str = "") -> tuple[int, str]:
        """Execute a command inside; return its exit code and what it wrote."""
        reader, writer = os.pipe()
        nothing = os.open("/dev/null", os.O_RDONLY)
        try:
            spec = ExecSpec(argv, host=host, container=container)
            started = self.zygote.exec(spec, (nothing, writer, writer))
        finally:
            os.close(nothing)
            os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as output:
            text = output.read()
        os.close(started.pidfd)
        return exit_code(self.zygote.wait(started.id, timeout=20)), text

    def pod(self, name: str, *argv: str, **changes: object) -> str:
        """Start a sandbox and one container in it on node1; return the container's id."""
        sandbox = self.zygote.sandbox(SandboxSpec(f"{name}/0", "node1", name))
        os.close(sandbox.pidfd)
        os.close(sandbox.netns)
        container = f"{name}/app/0"
        spec = {
            "mounts": MOUNTS,
            "capabilities": DEFAULT_CAPABILITIES,
            "readonly_paths": ("/proc/sys",),
            "masked_paths": ("/proc/keys",),
            **changes,
        }
        nothing = os.open("/dev/null", os.O_RDWR)
        try:
            started = self.zygote.container(
                ContainerSpec(container, "node1", f"{name}/0", argv, **spec),  # type: ignore[arg-type]
                (nothing, nothing, nothing),
            )
        finally:
            os.close(nothing)
        os.close(started.pidfd)
        return container

    def gone(self, deadline: float = 10.0) -> bool:
        """Return whether PID 1 ends within ``deadline`` seconds."""
        return bool(select.select([self.pidfd], [], [], deadline)[0])


def exit_code(process: Process) -> int:
    """Return the code of an ended process."""
    assert process.exit is not None
    return process.exit.code


@contextmanager
def lab(user: str, *, hosts: bool = True, **boot: object) -> Iterator[Lab]:
    """Boot a PID 1 for ``user``; with ``hosts`` it has node1 and client."""
    state = Path(tempfile.mkdtemp(prefix="labnet-test-"))
    reader, writer = os.pipe()
    pid = pidfd = -1
    try:
        pid, pidfd = _launch(user, state, reader, boot)
        zygote = Zygote(Client(state / "control.sock"))
        if hosts:
            zygote.hosts([node("node1"), HostSpec("client", node=False)])
        yield Lab(zygote, pid, pidfd, state, user, writer)
        zygote.close()
    finally:
        os.close(writer)
        os.close(reader)
        if pidfd >= 0:
            end(pidfd)
        shutil.rmtree(state)


def node(name: str) -> HostSpec:
    """Return a node's spec."""
    return HostSpec(name, etc_hosts=f"127.0.0.1\tlocalhost\n192.168.50.11\t{name}\n")


def _launch(user: str, state: Path, alive: int, boot: dict[str, object]) -> tuple[int, int]:
    if user == "root" or os.geteuid() != 0:
        launched = launch(Boot("test", state, alive=alive, **boot))  # type: ignore[arg-type]
        return launched.pid, launched.pidfd
    os.chown(state, ORDINARY, ORDINARY)
    record = json.dumps({"name": "test", "state": str(state), "alive": alive, **boot})
    found = subprocess.run(
        (sys.executable, "-c", _START, record),
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": "/"},
        cwd="/",
        user=ORDINARY,
        group=ORDINARY,
        extra_groups=[],
        pass_fds=[alive],
        stdout=subprocess.PIPE,
        check=True,
    )
    pid = int(found.stdout)
    return pid, os.pidfd_open(pid)


def end(pidfd: int) -> None:
    """Kill PID 1, if it is still there, and wait for its end."""
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    select.select([pidfd], [], [], 10)
    os.close(pidfd)


def members(pid: int) -> set[int]:
    """Return the host pids of every process in the pid namespace of ``pid``, or below."""
    inside = {pid}
    while True:
        more = {one for one in _parents() if _parents().get(one) in inside} - inside
        if not more:
            return inside
        inside |= more


def _parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found
