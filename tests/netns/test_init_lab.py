"""PID 1 on the real kernel: hosts, pods, execs, dialling, and what is left afterwards."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from labnet.errors import AlreadyExists, LabnetError, NotFound, Unavailable, Unsupported
from labnet.lab.liveness import acquire
from labnet.lab.liveness import running as is_running
from labnet.linux.seqpacket import Client
from labnet.sandbox.spec import ContainerSpec, ExecSpec, Mount, SandboxSpec
from labnet.sandbox.zygote import HostSpec, Zygote
from tests.conditions import eventually
from tests.netns.init_lab import MOUNTS, USERS, Lab, exit_code, lab, members, node

pytestmark = [pytest.mark.netns]


@pytest.fixture(scope="module", params=USERS)
def running(request: pytest.FixtureRequest) -> Iterator[Lab]:
    with lab(request.param) as found:
        yield found


# -- hosts ------------------------------------------------------------------------------


def test_a_host_has_its_own_name_files_and_interfaces(running: Lab) -> None:
    script = "hostname; cat /etc/hostname; tail -1 /etc/hosts; ls /sys/class/net; ls -A /var/lib"
    code, text = running.run("sh", "-c", script, host="node1")
    assert (code, text.split()) == (0, ["node1", "node1", "192.168.50.11", "node1", "lo"])


@pytest.mark.parametrize(("host", "forwards"), [("node1", "1"), ("client", "0")])
def test_a_node_forwards_and_a_client_does_not(running: Lab, host: str, forwards: str) -> None:
    names = ("net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables")
    _, text = running.run("sysctl", "-n", *names, "net.ipv4.conf.all.rp_filter", host=host)
    assert text.split() == [forwards, forwards, "0"]


def test_hosts_see_the_state_directory_and_hosts_that_come_later(running: Lab) -> None:
    running.zygote.hosts([HostSpec("late", node=False)])
    _, text = running.run("ls", "/run/netns", "/run/labnet", host="node1")
    assert {"client", "late", "node1", "zygote.sock", "logs"} <= set(text.split())
    code, _ = running.run("ip", "netns", "exec", "late", "true", host="node1")
    assert code == 0


def test_two_hosts_share_nothing_that_is_private(running: Lab) -> None:
    running.run("touch", "/run/mine", "/tmp/mine", host="node1")
    code, _ = running.run("ls", "/run/mine", "/tmp/mine", host="client")
    assert code != 0
    assert not Path("/run/mine").exists()


def test_a_host_of_that_name_already_is_an_error(running: Lab) -> None:
    with pytest.raises(AlreadyExists, match="host node1"):
        running.zygote.hosts([node("node1")])


def test_tcpdump_works_on_a_host_even_with_one_uid(running: Lab) -> None:
    ping = "ping -c 1 127.0.0.1 >/dev/null"
    script = f"tcpdump -i lo -n -c 1 icmp & while kill -0 $!; do {ping}; done; wait"
    _, text = running.run("sh", "-c", script, host="node1")
    assert "ICMP echo request" in text


# -- exec -------------------------------------------------------------------------------


def test_an_exit_code_and_a_signal_come_back(running: Lab) -> None:
    assert running.run("sh", "-c", "exit 7", host="node1")[0] == 7
    assert running.run("sh", "-c", "kill -9 $$", host="node1")[0] == 137


def test_a_program_that_is_not_there_is_named(running: Lab) -> None:
    with pytest.raises(NotFound, match=r'"nonesuch": executable file not found in \$PATH'):
        running.run("nonesuch", host="node1")
    with pytest.raises(NotFound, match='"/no/such": no such file or directory'):
        running.run("/no/such", host="node1")


def test_what_is_not_there_cannot_be_entered(running: Lab) -> None:
    with pytest.raises(NotFound, match="there is no host nowhere"):
        running.run("true", host="nowhere")
    with pytest.raises(NotFound, match="there is no container a/b/0"):
        running.run("true", container="a/b/0")


def test_an_exec_with_a_terminal_has_it_as_its_controlling_one(running: Lab) -> None:
    master, slave = os.openpty()
    spec = ExecSpec(("sh", "-c", "echo hi > /dev/tty"), host="node1", tty=True)
    started = running.zygote.exec(spec, (slave, slave, slave))
    assert exit_code(running.zygote.wait(started.id, timeout=10)) == 0
    assert os.read(master, 100).strip() == b"hi"
    for descriptor in (master, slave, started.pidfd):
        os.close(descriptor)


def test_nothing_of_pid_1_leaks_into_a_command(running: Lab) -> None:
    _, text = running.run("sh", "-c", "ls /proc/$$/fd; env", host="node1")
    lines = text.splitlines()
    assert lines[:3] == ["0", "1", "2"]
    assert {line.partition("=")[0] for line in lines[3:]} <= {"PATH", "HOME", "PWD", "_", "SHLVL"}


# -- pods -------------------------------------------------------------------------------


def test_a_container_is_pid_1_with_its_own_root_name_and_network(running: Lab) -> None:
    container = running.pod("own", "sleep", "1000")
    script = "cat /proc/1/comm; hostname; ls /; ls /proc/sys/net/ipv4/conf"
    _, text = running.run("sh", "-c", script, container=container)
    comm, hostname, *rest = text.split()
    assert (comm, hostname) == ("sleep", "own")
    assert set(rest) == {
        *("bin", "dev", "etc", "lib", "lib64", "proc", "sbin", "usr"),
        *("all", "default", "lo"),
    }
    assert running.run("sh", "-c", "> /proc/sys/net/ipv4/ip_forward", container=container)[0] != 0


def test_a_container_has_the_capabilities_it_was_given_and_no_way_to_more(running: Lab) -> None:
    container = running.pod("caps", "sleep", "1000", capabilities=("CHOWN", "NET_RAW"))
    expected = f"{1 | 1 << 13:016x}"
    for target in ("1", "self"):
        _, text = running.run(
            "grep", "-E", "Cap|NoNew", f"/proc/{target}/status", container=container
        )
        found = dict(line.split(":\t") for line in text.splitlines())
        assert [found[one] for one in ("CapPrm", "CapEff", "CapBnd")] == [expected] * 3
        assert (found["CapInh"], found["NoNewPrivs"]) == ("0" * 16, "1")
    assert running.run("mount", "-t", "tmpfs", "x", "/proc", container=container)[0] != 0


def test_killing_a_container_ends_everything_in_it_and_its_watchers_hear(running: Lab) -> None:
    container = running.pod("killed", "sleep", "1000")
    watch = running.zygote.watch("node1")
    started = running.zygote.exec(ExecSpec(("sleep", "1000"), container=container), (0, 1, 2))
    running.zygote.signal(container, signal.SIGKILL)
    process = next(one for one in watch if one.id == container)
    assert exit_code(process) == 137
    assert exit_code(running.zygote.wait(started.id, timeout=10)) == 137
    os.close(started.pidfd)
    assert (running.state / "exits/killed_app_0").exists()
    with pytest.raises(NotFound, match="is not running"):
        running.run("true", container=container)
    running.zygote.forget(container)
    assert container not in {one.id for one in running.zygote.list("node1")}


def test_a_container_without_a_function_for_sigterm_ignores_it_as_pid_1(running: Lab) -> None:
    container = running.pod("deaf", "sleep", "1000")
    running.zygote.signal(container, signal.SIGTERM)
    with pytest.raises(Unavailable):
        running.zygote.wait(container, timeout=0.2)
    assert running.run("true", container=container)[0] == 0


def test_a_built_in_program_runs_without_an_exec(running: Lab) -> None:
    container = running.pod("builtin", "/pause", program="pause:main")
    _, text = running.run("sh", "-c", "cat /proc/1/comm; ls /proc/1/fd", container=container)
    assert text.split()[0] == "pause"
    running.zygote.signal(container, signal.SIGTERM)
    assert running.zygote.wait(container, timeout=10).exit is not None


def test_kept_descriptors_are_given_back(running: Lab) -> None:
    reader, writer = os.pipe()
    sandbox = running.zygote.sandbox(SandboxSpec("kept/0", "node1", "kept"))
    spec_id = "kept/app/0"
    nothing = os.open("/dev/null", os.O_RDWR)
    spec = ContainerSpec(spec_id, "node1", "kept/0", ("sleep", "9"), mounts=MOUNTS)
    started = running.zygote.container(spec, (nothing, nothing, nothing), keep=(reader,))
    os.close(reader)
    (back,) = running.zygote.fds(spec_id)
    os.write(writer, b"log")
    assert os.read(back, 10) == b"log"
    running.zygote.forget(spec_id)
    for one in (back, writer, nothing, started.pidfd, sandbox.pidfd, sandbox.netns):
        os.close(one)


def test_a_volume_below_the_read_only_usr_gets_a_mount_point(running: Lab) -> None:
    volume = Mount("bind", "/usr/share/nginx/html", "/run/labnet/logs", ("ro",))
    container = running.pod("volume", "sleep", "1000", mounts=(*MOUNTS, volume))
    code, text = running.run("ls", "/usr/share/nginx/html", container=container)
    assert (code, "init.log" in text.split()) == (0, True)
    assert running.run("ls", "/usr/share/zoneinfo", container=container)[0] == 0
    assert not Path("/usr/share/nginx/html").exists()


def test_a_failed_start_says_why_and_leaves_no_trace(running: Lab) -> None:
    with pytest.raises(NotFound, match='"nonesuch": executable file not found'):
        running.pod("failing", "nonesuch")
    assert "failing/app/0" not in {one.id for one in running.zygote.list()}
    missing = Mount("bind", "/data", "/no/such/volume")
    with pytest.raises(NotFound, match="mount /data: there is no /no/such/volume"):
        running.pod("failing2", "true", mounts=(*MOUNTS, missing))


def test_a_user_needs_more_than_one_uid(running: Lab) -> None:
    if running.user == "ordinary":
        with pytest.raises(Unsupported, match="this lab has one user"):
            running.pod("user", "sleep", "1000", run_as_user=1000)
        return
    container = running.pod("user", "sleep", "1000", run_as_user=1000, run_as_group=1000)
    _, text = running.run("id", container=container)
    assert text.startswith("uid=1000 gid=1000 groups=1000")
    _, text = running.run("grep", "CapEff", "/proc/self/status", container=container)
    assert text.split()[1] == "0" * 16


def test_a_sandbox_with_the_hosts_network_is_in_it(running: Lab) -> None:
    sandbox = running.zygote.sandbox(SandboxSpec("hostnet/0", "node1", "x", host_network=True))
    own, theirs = (
        os.fstat(sandbox.netns).st_ino,
        running.run("stat", "-Lc", "%i", "/proc/self/ns/net", host="node1"),
    )
    assert str(own) == theirs[1].strip()
    os.close(sandbox.netns)
    os.close(sandbox.pidfd)


def test_a_sandbox_sets_its_sysctls(running: Lab) -> None:
    setting = ("net.ipv4.ip_local_port_range", "40000\t50000")
    sandbox = running.zygote.sandbox(SandboxSpec("sysctl/0", "node1", "s", sysctls=(setting,)))
    assert sandbox.pid > 1
    os.close(sandbox.netns)
    os.close(sandbox.pidfd)
    with pytest.raises(LabnetError):
        running.zygote.sandbox(
            SandboxSpec("sysctl/1", "node1", "s", sysctls=(("net.ipv4.nonesuch", "1"),))
        )
    assert running.run("hostname", host="node1")[1].strip() == "node1"


# -- reaching in ------------------------------------------------------------------------


def test_a_connection_is_made_inside_and_used_outside(running: Lab) -> None:
    server = (
        "import socket; s = socket.create_server(('127.0.0.1', 8080)); print();"
        "s.accept()[0].sendall(b'inside')"
    )
    reader, writer = os.pipe()
    argv = ("/usr/bin/python3", "-uc", server)
    started = running.zygote.exec(ExecSpec(argv, host="client"), (0, writer, 2))
    os.read(reader, 1)
    with socket.socket(fileno=running.zygote.dial("127.0.0.1", 8080, host="client")) as connection:
        connection.settimeout(10)
        assert connection.recv(10) == b"inside"
    for one in (reader, writer, started.pidfd):
        os.close(one)


def test_a_refused_connection_says_so(running: Lab) -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1: Connection refused"):
        running.zygote.dial("127.0.0.1", 1, host="node1")
    with pytest.raises(NotFound, match="there is no host nowhere"):
        running.zygote.dial("127.0.0.1", 1, host="nowhere")
    with pytest.raises(LabnetError, match="no address"):
        running.zygote.dial("no address", 1, host="node1")


# -- the two doors ----------------------------------------------------------------------


def test_a_component_cannot_use_the_hosts_verbs(running: Lab) -> None:
    inner = Zygote(Client(running.state / "zygote.sock"))
    assert inner.list("client")
    for forbidden in (inner.shutdown, inner.ready, inner.preload):
        with pytest.raises(LabnetError, match="control socket only"):
            forbidden()
    inner.close()


def test_nonsense_is_answered_and_survived(running: Lab) -> None:
    client = Client(running.state / "control.sock")
    for nonsense in (b"{}", b"[]", b"\x00", b'{"verb":"exec"}', b'{"verb":"signal","id":"x"}'):
        assert b"error" in client.call(nonsense)[0]
    client.close()
    assert running.zygote.list()


# -- the end ----------------------------------------------------------------------------


def snapshot() -> dict[str, str]:
    """What a lab must not change about the machine."""
    links = subprocess.run(("ip", "-o", "link"), capture_output=True, text=True, check=True).stdout
    return {
        "links": links,
        "mounts": Path("/proc/self/mounts").read_text(),
        "hostname": socket.gethostname(),
        "forwarding": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
    }


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("how", ["kill", "shutdown", "term", "pipe"])
def test_however_it_ends_nothing_is_left(user: str, how: str) -> None:
    before = snapshot()
    with lab(user) as found:
        found.pod("web", "sleep", "1000")
        assert snapshot() == before
        processes = members(found.pid)
        assert len(processes) == 5
        match how:
            case "kill":
                signal.pidfd_send_signal(found.pidfd, signal.SIGKILL)
            case "term":
                signal.pidfd_send_signal(found.pidfd, signal.SIGTERM)
            case "shutdown":
                found.zygote.shutdown()
            case "pipe":
                os.dup2(os.open("/dev/null", os.O_WRONLY), found.alive)
        assert found.gone()
        eventually(
            lambda: not any(Path(f"/proc/{pid}/ns/net").exists() for pid in processes - {found.pid})
        )
    assert snapshot() == before


def test_once_ready_it_outlives_the_pipe() -> None:
    with lab(USERS[0], hosts=False) as found:
        found.zygote.ready()
        os.dup2(os.open("/dev/null", os.O_WRONLY), found.alive)
        assert found.zygote.list() == ()
        assert not select.select([found.pidfd], [], [], 0.1)[0]


def test_a_lock_is_free_only_when_all_are_gone(tmp_path: Path) -> None:
    with_root = USERS[0] == "root"
    if not with_root and os.geteuid() == 0:
        pytest.skip("the lock belongs to another user")
    state, lock = acquire("locked", tmp_path)
    try:
        with lab(USERS[0], hosts=True, lock=lock) as found:
            os.close(lock)
            lock = -1
            assert is_running(state)
            found.zygote.shutdown()
            assert found.gone()
            assert not is_running(state)
    finally:
        if lock >= 0:
            os.close(lock)
