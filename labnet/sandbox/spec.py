"""What a process of the lab is made of: pod sandboxes, containers, exec, components.

A pod is a *sandbox*, a pause process that holds the net, ipc and uts namespaces, and
containers that join them and bring a mount and a pid namespace of their own. These
specs are what the kubelet plans and the zygote (PID 1 of the lab, ``labnet.lab.init``)
carries out; they travel as JSON over a socket, file descriptors beside them, see
:mod:`labnet.sandbox.protocol`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

MountKind = Literal["bind", "tmpfs", "proc", "sysfs", "devpts", "mqueue", "dir", "file", "symlink"]


@dataclass(frozen=True, slots=True)
class Mount:
    """One step in building a container's root, done in order.

    ``bind``: ``source`` (a path in the node's mount namespace, or an earlier target)
    appears at ``target``; ``file``: a regular file with ``content``; ``symlink``:
    ``target`` points to ``source``; ``dir``: an empty directory. Missing parents and
    mount points are made. ``target`` is absolute, inside the container.
    """

    kind: MountKind
    target: str
    source: str = ""
    options: tuple[str, ...] = ()  # "ro", "nosuid", "nodev", "noexec", "rec", "size=…", "mode=…"
    content: str = ""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """A pause process in new net, ipc and uts namespaces.

    With ``host_network`` no net namespace is made: the pod shares its node's.
    """

    id: str  # "<pod uid>/<attempt>"
    node: str
    hostname: str
    host_network: bool = False
    sysctls: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One app process that joins a sandbox, in new mount and pid namespaces.

    ``program`` names a built-in program (``module:function`` below
    ``labnet.image.programs``) that the fork runs itself, with ``argv`` as its
    arguments; empty means ``argv`` is executed, looked up in the PATH of ``env``.
    ``fds``, handed over with the request: stdin, stdout, stderr; ``keep`` of them
    (indices) are stored by the zygote under ``id`` so that a restarted kubelet gets
    them back (log pipes).
    """

    id: str  # "<pod uid>/<container name>/<attempt>"
    node: str
    sandbox: str
    argv: tuple[str, ...]
    program: str = ""
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = "/"
    mounts: tuple[Mount, ...] = ()
    capabilities: tuple[str, ...] = ()  # names without CAP_
    readonly_root: bool = False
    masked_paths: tuple[str, ...] = ()
    readonly_paths: tuple[str, ...] = ()
    run_as_user: int | None = None
    run_as_group: int | None = None
    no_new_privileges: bool = True
    tty: bool = False  # fd 0 is a pty slave: becomes the controlling terminal
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ExecSpec:
    """A further process in a running container, or on a host (node or client).

    Exactly one of ``container`` (an id) and ``host`` (a node's or client's name) is set.
    """

    argv: tuple[str, ...]
    container: str = ""
    host: str = ""
    program: str = ""
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = "/"
    tty: bool = False


@dataclass(frozen=True, slots=True)
class ComponentSpec:
    """A supervised process of the lab: etcd, kube-proxy@node1 …

    ``entry`` is ``module:function``; the fork calls it with ``config`` (plain JSON)
    after it joined ``host``'s namespaces. With ``argv`` the program is executed instead.
    ``sockets`` are names of listeners that PID 1 keeps and hands over; the component
    finds their file descriptor numbers in ``config["sockets"][name]``.
    """

    name: str  # "kube-proxy@node1"
    host: str
    entry: str = ""
    argv: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    config: dict[str, object] = field(default_factory=dict)
    sockets: tuple[str, ...] = ()
    restart: bool = True


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: its exit code, or 128 + signal, as a shell reports it."""

    code: int
    signal: int
    finished: str  # RFC 3339, microseconds


@dataclass(frozen=True, slots=True)
class Process:
    """What the zygote knows of one process it started."""

    id: str
    kind: Literal["sandbox", "container", "exec", "component", "host"]
    node: str
    pid: int  # in the lab's pid namespace; 0 when it has ended
    started: str  # RFC 3339, microseconds
    exit: Exit | None = None
    restarts: int = 0
    sandbox: str = ""
    labels: tuple[tuple[str, str], ...] = ()
