"""Mounting, and building a directory tree out of mounts.

The kernel takes options of two kinds: flags that it knows for every filesystem
(read-only, nosuid …) and a text for the filesystem itself (``size=64m``). A bind mount
ignores flags when it is made; they have to be set by remounting it, and a user
namespace may add restrictions to a mount that it inherited but not lift any, so what is
there already is kept.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from labnet.linux.libc import call

RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
REMOUNT, NOATIME, NODIRATIME, BIND, MOVE, REC = 32, 1024, 2048, 4096, 8192, 16384
PRIVATE, SLAVE, SHARED, RELATIME = 1 << 18, 1 << 19, 1 << 20, 1 << 21
DETACH = 2

_FLAGS = {"ro": RDONLY, "nosuid": NOSUID, "nodev": NODEV, "noexec": NOEXEC, "rec": REC}
_LINKS_MAX = 40  # as the kernel's MAXSYMLINKS


def mount(source: str, target: str, kind: str = "", flags: int = 0, text: str = "") -> None:
    """Mount ``source`` at ``target``; the error names the target."""
    call(
        "mount",
        source.encode(),
        os.fsencode(target),
        kind.encode() or None,
        flags,
        text.encode() or None,
        what=f"mounting {kind or source} at {target}",
    )


def options(words: Iterable[str]) -> tuple[int, str]:
    """Split mount options into flags and the text that is left for the filesystem."""
    flags, rest = 0, []
    for word in words:
        if word in _FLAGS:
            flags |= _FLAGS[word]
        else:
            rest.append(word)
    return flags, ",".join(rest)


def bind(source: str, target: str, flags: int = 0) -> None:
    """Show ``source`` at ``target``, recursively; then add restrictions (``RDONLY`` …)."""
    mount(source, target, flags=BIND | REC)
    if restrictions := flags & ~REC:
        restrict(target, restrictions)


def restrict(target: str, flags: int) -> None:
    """Add ``RDONLY``, ``NOSUID`` … to a mount, keeping those that it has."""
    mount("none", target, flags=REMOUNT | BIND | flags | _present(target))


def _present(target: str) -> int:
    """Return the restrictions that are on a mount: ST_ and MS_ flags agree up to NOEXEC."""
    found = os.statvfs(target).f_flag
    flags = found & (RDONLY | NOSUID | NODEV | NOEXEC)
    for present, flag in ((os.ST_NOATIME, NOATIME), (os.ST_NODIRATIME, NODIRATIME)):
        if found & present:
            flags |= flag
    return flags | (RELATIME if found & os.ST_RELATIME else 0)


def propagation(target: str, kind: int) -> None:
    """Set how mounts below ``target`` spread: ``PRIVATE``, ``SLAVE`` or ``SHARED``, with REC."""
    mount("none", target, flags=kind)


def unmount(target: str, flags: int = DETACH) -> None:
    """Take a mount away, even while it is in use."""
    call("umount2", os.fsencode(target), flags, what=f"unmounting {target}")


def change_root(root: str) -> None:
    """Make ``root``, a mount point, the root of this mount namespace; nothing else is left.

    The old root is stacked below the new one and detached, so no directory is needed to
    put it in (pivot_root(2), NOTES).
    """
    os.chdir(root)
    call("pivot_root", b".", b".", what=f"pivot_root to {root}")
    unmount(".")
    os.chdir("/")


def inside(root: str, target: str) -> str:
    """Return where ``target`` is below ``root``, symbolic links resolved *within* it.

    Parts that do not exist yet are taken as they are. An absolute link made for the
    inside (/var/run → /run) must not lead to the machine's own directory.
    """
    todo = [part for part in reversed(target.split("/")) if part]
    found: list[str] = []
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            found = found[:-1]
            continue
        if part == ".":
            continue
        path = Path(root, *found, part)
        if not path.is_symlink():
            found.append(part)
            continue
        if (links := links + 1) > _LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), target)
        link = str(path.readlink())
        found = [] if link.startswith("/") else found
        todo += [part for part in reversed(link.split("/")) if part]
    return "/".join((root, *found))


def mount_point(path: str, *, directory: bool) -> None:
    """Make an empty directory or file to mount on, with its parents, if there is none."""
    if os.path.lexists(path):
        return
    if directory:
        Path(path).mkdir(parents=True, exist_ok=True)
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
