"""Components: supervised, restarted, stopped; one-shots; what forks share with PID 1."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from labnet.errors import AlreadyExists, LabnetError, NotFound, Unsupported
from labnet.lab.init.boot import Boot
from labnet.lab.init.launch import launch
from labnet.linux.seqpacket import Client
from labnet.sandbox.spec import ComponentSpec, Process
from labnet.sandbox.zygote import Zygote
from tests.conditions import eventually
from tests.netns.init_lab import USERS, Lab, end, lab

pytestmark = [pytest.mark.netns]
ENTRIES = "tests.netns.init_entries"


@pytest.fixture(scope="module", params=USERS)
def running(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with lab(request.param, preload=["json.tool", "no.such.module"]) as found:
        yield found


def spec(name: str, entry: str = "component", **config: object) -> ComponentSpec:
    config = {"file": f"/run/labnet/{name}.starts", **config}
    return ComponentSpec(name, "node1", entry=f"{ENTRIES}:{entry}", config=config)


def starts(running: Lab, name: str) -> list[str]:
    path = running.state / f"{name}.starts"
    return path.read_text().splitlines() if path.exists() else []


def process(running: Lab, name: str) -> Process:
    return next(one for one in running.zygote.list("node1") if one.id == name)


def test_a_component_runs_on_its_host_and_logs_to_its_file(running: Lab) -> None:
    pid = running.zygote.component(spec("logged", greeting="hello"))
    log = running.state / "logs/logged.log"
    eventually(lambda: "started hello" in log.read_text())
    assert starts(running, "logged") == [f"{pid} node1 ['file', 'greeting']"]
    assert running.run("cat", f"/proc/{pid}/comm", host="node1")[1].strip() == "logged"


def test_a_killed_component_is_back_at_once(running: Lab) -> None:
    watch = running.zygote.watch("node1")
    running.zygote.component(spec("killed"))
    eventually(lambda: len(starts(running, "killed")) == 1)
    running.zygote.component_signal("killed", signal.SIGKILL)
    ended = next(one for one in watch if one.id == "killed")
    assert ended.exit is not None
    assert ended.exit.signal == signal.SIGKILL
    eventually(lambda: len(starts(running, "killed")) == 2, seconds=0.9)
    assert process(running, "killed").restarts == 1


def test_one_that_fails_at_once_waits_longer_each_time(running: Lab) -> None:
    running.zygote.component(spec("failing", entry="failing"))
    eventually(lambda: process(running, "failing").restarts == 1)
    eventually(lambda: process(running, "failing").exit is not None)
    assert "ValueError: no good" in (running.state / "logs/failing.log").read_text()
    running.zygote.component_stop("failing")


def test_a_stopped_component_stays_stopped_until_it_is_started_again(running: Lab) -> None:
    running.zygote.component(spec("stopped"))
    eventually(lambda: len(starts(running, "stopped")) == 1)
    with pytest.raises(AlreadyExists):
        running.zygote.component(spec("stopped"))
    running.zygote.component_stop("stopped")
    assert process(running, "stopped").exit is not None
    with pytest.raises(NotFound, match="is not running"):
        running.zygote.component_signal("stopped", signal.SIGTERM)
    pid = running.zygote.component_restart("stopped")
    assert process(running, "stopped").pid == pid
    eventually(lambda: len(starts(running, "stopped")) == 2)


def test_a_restart_is_a_new_process(running: Lab) -> None:
    first = running.zygote.component(spec("again"))
    second = running.zygote.component_restart("again")
    assert first != second
    assert process(running, "again").restarts == 1


def test_a_component_can_be_a_program(running: Lab) -> None:
    argv = ("sh", "-c", "echo from $0 $NAME; exec sleep 1000", "shell")
    program = ComponentSpec("program", "client", argv=argv, env=(("NAME", "me"),))
    running.zygote.component(program)
    eventually(lambda: (running.state / "logs/program.log").read_text() == "from shell me\n")


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (ComponentSpec("x", "node1", argv=("/no/etcd",)), "/no/etcd"),
        (ComponentSpec("x", "node1", entry=f"{ENTRIES}:nonesuch"), "nonesuch"),
        (ComponentSpec("x", "nowhere", entry=f"{ENTRIES}:component"), "there is no host nowhere"),
        (ComponentSpec("x", "node1", entry="a:b", sockets=("ui",)), "no listener called ui"),
    ],
)
def test_one_that_cannot_start_is_an_error_and_not_tried_again(
    running: Lab, broken: ComponentSpec, complaint: str
) -> None:
    with pytest.raises(NotFound, match=complaint):
        running.zygote.component(broken)
    with pytest.raises(NotFound):
        running.zygote.component_signal("x", signal.SIGTERM)


# -- one-shots --------------------------------------------------------------------------


def test_a_function_is_called_in_pid_1s_own_namespaces(running: Lab) -> None:
    found = running.zygote.run(f"{ENTRIES}:where", {"a": [1]})
    assert found["given"] == {"a": [1]}
    assert found["hostname"] == "test"
    assert {"client", "node1"} <= set(found["netns"])
    assert found["links"] == ["lo"]


def test_or_on_a_host(running: Lab) -> None:
    assert running.zygote.run(f"{ENTRIES}:where", {}, host="client")["hostname"] == "client"


def test_an_error_in_it_is_the_callers(running: Lab) -> None:
    with pytest.raises(LabnetError, match="ValueError: no good"):
        running.zygote.run(f"{ENTRIES}:failing", {})


# -- what PID 1 keeps and loads ---------------------------------------------------------


def test_what_cannot_be_imported_is_reported(running: Lab) -> None:
    assert running.zygote.preload() == ("no.such.module",)


def test_a_listener_outlives_the_component_that_serves_it() -> None:
    serving = ComponentSpec("api", "node1", entry=f"{ENTRIES}:answering", sockets=("api",))
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, lab(USERS[0], listeners={"api": listener.fileno()}) as found:
        address = listener.getsockname()
        listener.close()
        first = found.zygote.component(serving)
        assert ask(address) == first
        found.zygote.component_signal("api", signal.SIGKILL)
        assert ask(address) != first


def ask(address: tuple[str, int]) -> int:
    """Return who answers. Connections queue in the kernel while nobody accepts: none is
    refused; one that a process took on its way to its death ends empty.
    """
    while True:
        with (
            contextlib.suppress(ConnectionResetError),
            socket.create_connection(address, timeout=10) as connection,
        ):
            if answer := connection.recv(20):
                return int(answer)


def test_pid_1_has_one_thread_and_a_clean_environment(running: Lab) -> None:
    running.zygote.preload()
    _, status = running.run("grep", "Threads", "/proc/1/status", host="node1")
    assert status.split() == ["Threads:", "1"]
    _, environ = running.run("sh", "-c", "tr '\\0' '\\n' < /proc/1/environ", host="node1")
    names = {line.partition("=")[0] for line in environ.splitlines()}
    assert names <= {
        *("HOME", "LOGNAME", "USER", "TZ", "PATH", "LANG"),
        *("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "MALLOC_ARENA_MAX"),
    }


# -- refusals ---------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="takes namespaces away from a child of root")
def test_a_machine_without_user_namespaces_is_named(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(_refused(tmp_path))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _refused(state: Path) -> int:
    """In a user namespace of its own where no further one may be made."""
    from labnet.linux.namespaces import NEWUSER, unshare

    unshare(NEWUSER)
    Path("/proc/self/uid_map").write_text("1000 0 1")
    try:
        launched = launch(Boot("refused", state))
    except Unsupported as error:
        return 0 if error.hint and "namespaces" in error.message else 2
    except LabnetError:
        return 3
    zygote = Zygote(Client(launched.control))
    zygote.shutdown()
    end(launched.pidfd)
    return 4
