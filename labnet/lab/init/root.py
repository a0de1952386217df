"""Building a container's root and moving into it: the mounts of a ``ContainerSpec``.

The root is a fresh tmpfs; each step of the spec is carried out below it, with links
resolved inside. A mount point that is missing below a read-only tree (a volume at
/usr/share/nginx/html) gets an overlay on the nearest directory that is there: its
writable half is a tmpfs, the machine's directory below is never written. Last the tree
becomes the only one this mount namespace has.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from itertools import count
from pathlib import Path

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
        target = mounts.inside(ROOTS, step.target)
        try:
            _STEPS[step.kind](step, target)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            _overlay(target, next(overlays))
            _STEPS[step.kind](step, target)
    for path in spec.masked_paths:
        _mask(ROOTS + path)
    for path in spec.readonly_paths:
        if Path(ROOTS + path).exists():
            mounts.bind(ROOTS + path, ROOTS + path, mounts.RDONLY)
    _working_directory(spec.cwd)
    if spec.readonly_root:
        mounts.restrict(ROOTS, mounts.RDONLY)
    mounts.change_root(ROOTS)


def _overlay(target: str, upper: str) -> None:
    """Make the nearest existing directory above ``target`` writable, for this container."""
    lower = Path(target).parent
    while not lower.is_dir():
        lower = lower.parent
    Path(upper).mkdir(exist_ok=True)
    mounts.mount("tmpfs", upper, "tmpfs", mounts.NOSUID, "mode=755")
    for part in ("upper", "work"):
        Path(upper, part).mkdir()
    text = f"lowerdir={lower},upperdir={upper}/upper,workdir={upper}/work"
    mounts.mount("overlay", str(lower), "overlay", mounts.NOSUID | mounts.NODEV, text)


def _working_directory(path: str) -> None:
    """A working directory that no image brought is made, as container runtimes do."""
    place = Path(mounts.inside(ROOTS, path))
    if not place.exists():
        place.mkdir(parents=True)


def _mask(path: str) -> None:
    """Hide a file behind /dev/null, a directory behind an empty one; absent is fine."""
    if Path(path).is_dir():
        mounts.mount("tmpfs", path, "tmpfs", mounts.RDONLY, "size=0k")
    elif Path(path).exists():
        mounts.bind("/dev/null", path)


# -- the kinds of steps -----------------------------------------------------------------


def _bind(step: Mount, target: str) -> None:
    if not Path(step.source).exists():
        raise NotFound(f"mount {step.target}: there is no {step.source} on this node")
    mounts.mount_point(target, directory=Path(step.source).is_dir())
    flags, _ = mounts.options(step.options)
    mounts.bind(step.source, target, flags)


def _filesystem(step: Mount, target: str) -> None:
    mounts.mount_point(target, directory=True)
    flags, text = mounts.options(step.options)
    mounts.mount(step.kind, target, step.kind, flags, text)


def _dir(step: Mount, target: str) -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    if mode := _mode(step):
        Path(target).chmod(mode)


def _file(step: Mount, target: str) -> None:
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(step.content)
    Path(target).chmod(_mode(step) or 0o644)


def _symlink(step: Mount, target: str) -> None:
    # The last part must not be resolved: it is what gets made.
    place = Path(mounts.inside(ROOTS, str(Path(step.target).parent)), Path(step.target).name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(step.source)


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
