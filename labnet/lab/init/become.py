"""What a fork of PID 1 does to become a container, an exec, a component or a one-shot.

Each function here runs in the child and ends in an exec or in calling Python code. The
order of the steps is what matters: join and mount while still root of the lab, then
take the terminal, then give privileges up, and only then run what the pod brought.
Descriptors that are still open by then are closed on exec; where Python code runs
without one they are closed by hand.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from labnet.errors import NotFound, Unsupported
from labnet.lab.init import root
from labnet.lab.init.forks import Ready
from labnet.lab.init.hosts import JOINED
from labnet.linux import capabilities, process, seccomp
from labnet.linux.mounts import PRIVATE, REC, propagation
from labnet.linux.namespaces import NEWIPC, NEWNET, NEWNS, NEWUTS, setns, unshare
from labnet.linux.userns import one_uid
from labnet.sandbox.spec import ComponentSpec, ContainerSpec, ExecSpec
from labnet.sandbox.zygote import Stdio

PROGRAMS = "labnet.image.programs"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
Program = Callable[..., Any] | None
"""A built-in program's function; None: execute the command."""

_POD = NEWNET | NEWIPC | NEWUTS


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a container's processes may be and do; an exec into it gets the same."""

    user: int
    group: int
    capabilities: int
    no_new_privileges: bool

    @classmethod
    def of(cls, spec: ContainerSpec) -> Confinement:
        """Return the confinement that ``spec`` asks for."""
        return cls(
            spec.run_as_user or 0,
            spec.run_as_group or 0,
            capabilities.mask(spec.capabilities),
            spec.no_new_privileges,
        )


def container(
    spec: ContainerSpec, program: Program, sandbox: int, host: int, stdio: Stdio, ready: Ready
) -> int:
    """Become the app process of ``spec``, as PID 1 of its pid namespace.

    ``sandbox`` and ``host`` are pidfds of the pause process and of the node's holder.
    """
    setns(host, NEWNS, f"of {spec.node}")
    setns(sandbox, _POD, f"of sandbox {spec.sandbox}")
    unshare(NEWNS)
    propagation("/", PRIVATE | REC)
    root.enter(spec)
    process.stdio(*stdio)
    process.new_session(terminal=spec.tty)
    os.chdir(spec.cwd)
    confine(Confinement.of(spec))
    return _run(program, spec.argv, _environment(spec.env), (sandbox, host), ready)


def exec_in_container(
    spec: ExecSpec, program: Program, of: ContainerSpec, target: int, stdio: Stdio, ready: Ready
) -> int:
    """Become a further process of the container whose pidfd is ``target``."""
    setns(target, _POD | NEWNS, f"of container {spec.container}")
    process.stdio(*stdio)
    process.new_session(terminal=spec.tty)
    _change_directory(spec.cwd or "/")
    confine(Confinement.of(of))
    # The container's own environment, also for who asks without knowing the pod.
    return _run(program, spec.argv, _environment((*of.env, *spec.env)), (target,), ready)


def exec_on_host(spec: ExecSpec, program: Program, target: int, stdio: Stdio, ready: Ready) -> int:
    """Become a process on a node or client, with all the rights of the lab's root."""
    setns(target, JOINED, f"of {spec.host}")
    process.stdio(*stdio)
    process.new_session(terminal=spec.tty)
    _change_directory(spec.cwd or "/")
    if one_uid():
        seccomp.pretend_user_changes()
    return _run(program, spec.argv, _environment(spec.env), (target,), ready)


def component(spec: ComponentSpec, target: int, listeners: Mapping[str, int], ready: Ready) -> int:
    """Become a supervised component on its host, output going to its log."""
    _log_output(spec.name)
    setns(target, JOINED, f"of {spec.host}")
    os.close(target)
    os.setsid()
    os.chdir("/")
    process.set_name(spec.name)
    if spec.argv:
        for descriptor in listeners.values():
            os.set_inheritable(descriptor, True)
        process.execute(spec.argv, _environment(spec.env))
    os.environ.update(spec.env)
    config = dict(spec.config)
    if spec.sockets:
        config["sockets"] = dict(listeners)
    function = entry(spec.entry)
    _line_buffered()
    ready()
    return int(function(config) or 0)


def once(name: str, config: object, target: int | None, ready: Ready) -> int:
    """Call a function here or on a host; report what it returns."""
    if target is not None:
        setns(target, JOINED)
        os.close(target)
    ready.report({"result": entry(name)(config)})
    return 0


# -- giving up what is not granted ------------------------------------------------------


def confine(limits: Confinement) -> None:
    """Become the container's user with its capabilities; there is no way back.

    Where only root is mapped, changes of user are answered and ignored from here on
    (:mod:`labnet.linux.seccomp`), so that tcpdump works in a pod too.
    """
    alone = one_uid()
    if alone and (limits.user or limits.group):
        raise Unsupported(
            f"user {limits.user}, group {limits.group}: this lab has one user, root",
            hint="start the lab as root to run containers as other users",
        )
    capabilities.limit_bounding_set(limits.capabilities)
    if alone:
        seccomp.pretend_user_changes()
    else:
        os.setgroups([])
        os.setresgid(limits.group, limits.group, limits.group)
        os.setresuid(limits.user, limits.user, limits.user)
    if limits.user == 0:
        capabilities.limit(limits.capabilities)
    if limits.no_new_privileges:
        process.no_new_privileges()


# -- running ----------------------------------------------------------------------------


def entry(name: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` names. Raises ``NotFound``."""
    module, _, function = name.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise NotFound(f"{name}: {error}") from error
    return found


def built_in(name: str) -> Program:
    """Return an image's built-in program, imported; None for no name.

    Called before the fork: a container does not see labnet's files any more, and the
    next fork has the module already.
    """
    return entry(f"{PROGRAMS}.{name}") if name else None


def _run(
    program: Program,
    argv: Sequence[str],
    env: dict[str, str],
    descriptors: Sequence[int],
    ready: Ready,
) -> int:
    """Execute ``argv``, or call the built-in ``program`` in this very process."""
    os.umask(0o022)
    if program is None:
        process.execute(tuple(argv), env)
        return 127  # an exec does not return
    process.set_name(Path(argv[0]).name)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = list(argv)
    for descriptor in descriptors:
        os.close(descriptor)
    _line_buffered()
    ready()
    return int(program(list(argv)) or 0)


def _line_buffered() -> None:
    """Let every line of Python code out at once: PID 1's own output was to a file."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def _environment(env: Sequence[tuple[str, str]]) -> dict[str, str]:
    return {"PATH": _PATH, "HOME": "/root", **dict(env)}


def _change_directory(path: str) -> None:
    try:
        os.chdir(path)
    except OSError as error:
        raise NotFound(f"chdir to cwd {path!r}: {error.strerror}") from error


def _log_output(name: str) -> None:
    nothing = os.open("/dev/null", os.O_RDONLY)
    log = os.open(f"/run/labnet/logs/{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    process.stdio(nothing, log, log)
