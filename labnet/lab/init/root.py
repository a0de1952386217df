"""Building a container's root and moving into it: the mounts of a ``ContainerSpec``.

The root is a fresh tmpfs; each step of the spec is carried out below it, with links
resolved inside. A mount point that is missing below a read-only tree (a volume at
/usr/share/nginx/html) gets an overlay on the nearest directory that is there: its
writable half is a tmpfs, the machine's directory below is never written. Last the tree
becomes the only one this mount namespace has.
"""

# pathlib would double the time that a container's root takes.
# ruff: noqa: PTH101, PTH102, PTH123, PTH211

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from itertools import count

from labnet.errors import LabnetError, NotFound
from labnet.lab.init.places import ROOTS
from labnet.linux import mounts
from labnet.sandbox.spec import ContainerSpec, Mount

_UPPER = "/run/containers/upper"


def enter(spec: ContainerSpec) -> None:
    """Build the root of ``spec`` and make it this process's; it has its own mount ns."""
    mounts.mount("tmpfs", ROOTS, "tmpfs", mounts.NOSUID, "mode=755")
    overlays = (f"{_UPPER}{number}" for number in count())
    for step in spec.mounts:
        _carry_out(step, overlays)
    for path in spec.masked_paths:
        _mask(ROOTS + path)
    for path in spec.readonly_paths:
        if mounts.kind_of(ROOTS + path) != "absent":
            mounts.bind(ROOTS + path, ROOTS + path, mounts.RDONLY)
    # A working directory that no image brought is made, as container runtimes do.
    mounts.make_directory(mounts.inside(ROOTS, spec.cwd))
    if spec.readonly_root:
        mounts.restrict(ROOTS, mounts.RDONLY)
    mounts.change_root(ROOTS)


def _carry_out(step: Mount, overlays: Iterator[str]) -> None:
    target = mounts.inside(ROOTS, step.target)
    try:
        _STEPS[step.kind](step, target)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        _overlay(target, next(overlays))
        _STEPS[step.kind](step, target)


def _overlay(target: str, upper: str) -> None:
    """Make the nearest existing directory above ``target`` writable, for this container."""
    lower = target.rpartition("/")[0]
    while mounts.kind_of(lower) != "directory":
        lower = lower.rpartition("/")[0]
    mounts.make_directory(upper)
    mounts.mount("tmpfs", upper, "tmpfs", mounts.NOSUID, "mode=755")
    for part in ("upper", "work"):
        os.mkdir(f"{upper}/{part}")
    text = f"lowerdir={lower},upperdir={upper}/upper,workdir={upper}/work"
    mounts.mount("overlay", lower, "overlay", mounts.NOSUID | mounts.NODEV, text)


def _mask(path: str) -> None:
    """Hide a file behind /dev/null, a directory behind an empty one; absent is fine."""
    kind = mounts.kind_of(path)
    if kind == "directory":
        mounts.mount("tmpfs", path, "tmpfs", mounts.RDONLY, "size=0k")
    elif kind == "other":
        mounts.bind("/dev/null", path)


# -- the kinds of steps -----------------------------------------------------------------


def _bind(step: Mount, target: str) -> None:
    kind = mounts.kind_of(step.source)
    if kind == "absent":
        raise NotFound(f"mount {step.target}: there is no {step.source} on this node")
    mounts.mount_point(target, directory=kind == "directory")
    flags, _ = mounts.options(step.options)
    mounts.bind(step.source, target, flags)


def _filesystem(step: Mount, target: str) -> None:
    mounts.make_directory(target)
    flags, text = mounts.options(step.options)
    mounts.mount(step.kind, target, step.kind, flags, text)


def _dir(step: Mount, target: str) -> None:
    mounts.make_directory(target)
    if mode := _mode(step):
        os.chmod(target, mode)


def _file(step: Mount, target: str) -> None:
    mounts.make_directory(target.rpartition("/")[0])
    flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC
    with open(os.open(target, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(step.content)
    os.chmod(target, _mode(step) or 0o644)


def _symlink(step: Mount, target: str) -> None:
    # The last part must not be resolved: it is what gets made.
    parent, _, name = step.target.rpartition("/")
    directory = mounts.inside(ROOTS, parent)
    mounts.make_directory(directory)
    os.symlink(step.source, f"{directory}/{name}")


def _mode(step: Mount) -> int:
    """Return the mode among the options, as ``mode=755`` says it, or 0."""
    words = [word.removeprefix("mode=") for word in step.options if word.startswith("mode=")]
    try:
        return int(words[-1], 8) if words else 0
    except ValueError as error:
        raise LabnetError(f"mount {step.target}: {words[-1]} is no mode") from error


_STEPS: dict[str, Callable[[Mount, str], None]] = {
    "bind": _bind,
    "tmpfs": _filesystem,
    "proc": _filesystem,
    "sysfs": _filesystem,
    "devpts": _filesystem,
    "mqueue": _filesystem,
    "dir": _dir,
    "file": _file,
    "symlink": _symlink,
}
