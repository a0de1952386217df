"""A container's root: the mounts that make a host's /usr look like an image.

The root is an empty tmpfs. /usr comes from the machine, read-only, so that curl, ping,
dig, ip, nc and tcpdump are at hand; /bin, /sbin and /lib* are links into it or binds,
as the machine has them. /etc is built file by file: of the machine's own only what
programs from /usr need (the alternatives behind ``nc`` and ``awk``, the loader's cache,
certificates). /home, /root, /run and /var are the container's own and empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Protocol

from labnet.sandbox import etc
from labnet.sandbox.pod import Container, Pod
from labnet.sandbox.spec import Mount

PROGRAMS = "/opt/image/lib/labnet/image/programs"
# What programs from /usr read in the machine's /etc, where it is there.
SHARED_ETC = (
    "/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ld.so.cache",
    "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/services", "/etc/protocols",
    "/etc/iproute2", "/etc/ethertypes", "/etc/gai.conf", "/etc/bash.bashrc", "/etc/profile",
    "/etc/inputrc", "/etc/debian_version", "/etc/python3.11", "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
)  # fmt: skip
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


class Program(Protocol):
    """A built-in program of an image, see ``labnet.image.catalogue.Program``."""

    @property
    def path(self) -> str:
        """Where the container has it."""

    @property
    def entry(self) -> str:
        """``module:function`` below ``labnet.image.programs``."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What is to be known of the machine and node before a root can be planned."""

    node: str
    address: IPv4Address
    domain: str
    cluster_dns: IPv4Address | None
    top_links: tuple[tuple[str, str], ...]  # ("/bin", "usr/bin")
    top_dirs: tuple[str, ...]  # /bin, /lib64 … where they are no links
    etc: tuple[str, ...]  # those of SHARED_ETC that are there
    python: str  # an interpreter below /usr for the programs' scripts, or ""
    programs: str  # the directory of labnet.image.programs
    hosts: str = ""  # the node's /etc/hosts
    resolv_conf: str = ""  # the node's
    one_uid: bool = False  # a user namespace with a single uid mapped


def mounts(
    pod: Pod,
    container: Container,
    machine: Machine,
    address: IPv4Address,
    programs: Sequence[Program],
    volumes: Sequence[Mount] = (),
) -> tuple[Mount, ...]:
    """Return the steps that build the root of ``container``, in order."""
    return (
        *_system(machine),
        *_kernel(),
        *_etc(pod, container, machine, address),
        *_own_directories(),
        *_programs(machine, programs),
        *volumes,
    )


def _system(machine: Machine) -> tuple[Mount, ...]:
    return (
        Mount("bind", "/usr", "/usr", ("ro", "nodev", "rec")),
        *(Mount("symlink", target, source) for target, source in machine.top_links),
        *(Mount("bind", path, path, ("ro", "nodev", "rec")) for path in machine.top_dirs),
    )


def _kernel() -> tuple[Mount, ...]:
    """/proc, /sys and the few devices that programs expect."""
    return (
        Mount("proc", "/proc", options=("nosuid", "nodev", "noexec")),
        Mount("sysfs", "/sys", options=("ro", "nosuid", "nodev", "noexec")),
        Mount("tmpfs", "/dev", options=("nosuid", "noexec", "size=64k", "mode=755")),
        *(Mount("bind", f"/dev/{name}", f"/dev/{name}") for name in DEVICES),
        Mount("devpts", "/dev/pts", options=("nosuid", "noexec", "newinstance", "ptmxmode=0666")),
        Mount("symlink", "/dev/ptmx", "pts/ptmx"),
        Mount("tmpfs", "/dev/shm", options=("nosuid", "nodev", "noexec", "size=64m", "mode=1777")),
        Mount("mqueue", "/dev/mqueue", options=("nosuid", "nodev", "noexec")),
        Mount("symlink", "/dev/fd", "/proc/self/fd"),
        Mount("symlink", "/dev/stdin", "/proc/self/fd/0"),
        Mount("symlink", "/dev/stdout", "/proc/self/fd/1"),
        Mount("symlink", "/dev/stderr", "/proc/self/fd/2"),
    )


def _etc(
    pod: Pod, container: Container, machine: Machine, address: IPv4Address
) -> tuple[Mount, ...]:
    user = container.security.run_as_user
    group = container.security.run_as_group
    hostname = machine.node if pod.host_network else pod.hostname
    resolv_conf = etc.resolv_conf(pod, machine.cluster_dns, machine.domain, machine.resolv_conf)
    hosts = etc.hosts(pod, address, machine.domain, machine.hosts)
    return (
        *(Mount("bind", path, path, ("ro", "nosuid", "nodev")) for path in machine.etc),
        Mount("file", "/etc/hosts", content=hosts),
        Mount("file", "/etc/hostname", content=f"{hostname}\n"),
        Mount("file", "/etc/resolv.conf", content=resolv_conf),
        Mount("file", "/etc/passwd", content=etc.passwd(user)),
        Mount("file", "/etc/group", content=etc.group(group)),
        Mount("file", "/etc/nsswitch.conf", content=etc.NSSWITCH),
        Mount("symlink", "/etc/os-release", "../usr/lib/os-release"),
        Mount("symlink", "/etc/mtab", "/proc/mounts"),
        Mount("symlink", "/etc/localtime", "/usr/share/zoneinfo/Etc/UTC"),
    )


def _own_directories() -> tuple[Mount, ...]:
    plain = ("/home", "/mnt", "/run", "/srv", "/var/cache", "/var/lib", "/var/log")
    return (
        Mount("dir", "/root", options=("mode=700",)),
        *(Mount("dir", path, options=("mode=755",)) for path in plain),
        *(Mount("dir", path, options=("mode=1777",)) for path in ("/tmp", "/var/tmp")),
        Mount("symlink", "/var/run", "/run"),
    )


def _programs(machine: Machine, programs: Sequence[Program]) -> tuple[Mount, ...]:
    """The image's programs as scripts, for shells; nothing where Python is not in /usr."""
    if not programs or not machine.python:
        return ()
    return (
        Mount("bind", PROGRAMS, machine.programs, ("ro", "nosuid", "nodev")),
        *(
            Mount("file", p.path, options=("mode=755",), content=script(p, machine.python))
            for p in programs
        ),
    )


def script(program: Program, python: str) -> str:
    """Return a script that runs ``program`` in a fresh interpreter."""
    module, _, function = program.entry.partition(":")
    argv0 = program.path.removeprefix("/opt/image/bin/")
    return (
        f"#!{python} -BES\n"
        "import sys\n"
        f"sys.path.insert(0, {PROGRAMS.removesuffix('/labnet/image/programs')!r})\n"
        f"from labnet.image.programs.{module} import {function}\n"
        f"sys.exit({function}([{argv0!r}, *sys.argv[1:]]))\n"
    )
