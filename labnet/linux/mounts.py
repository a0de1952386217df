"""Mounting, and building a directory tree out of mounts.

The kernel takes options of two kinds: flags that it knows for every filesystem
(read-only, nosuid …) and a text for the filesystem itself (``size=64m``). A bind mount
ignores flags when it is made; they have to be set by remounting it, and a user
namespace may add restrictions to a mount that it inherited but not lift any, so what is
there already is kept.
"""

# pathlib would double the time that a container's root takes.
# ruff: noqa: PTH102, PTH115, PTH116

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from typing import Literal

from labnet.linux.libc import call

RDONLY, NOSUID, NODEV, NOEXEC = 1, 2, 4, 8
REMOUNT, NOATIME, NODIRATIME, BIND, REC = 32, 1024, 2048, 4096, 16384
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
    todo = target.split("/")[::-1]
    found = root
    links = 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            found = root if found == root else found.rpartition("/")[0]
            continue
        link = link_at(f"{found}/{part}")
        if link is None:
            found = f"{found}/{part}"
            continue
        if (links := links + 1) > _LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), target)
        found = root if link.startswith("/") else found
        todo += link.split("/")[::-1]
    return found


def link_at(path: str) -> str | None:
    """Return what the symbolic link at ``path`` says; None if there is no link."""
    try:
        return os.readlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:  # something else than a link
            return None
        raise


def kind_of(path: str) -> Literal["directory", "other", "absent"]:
    """Return what is at ``path``, links followed."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "absent"
    return "directory" if stat.S_ISDIR(mode) else "other"


def mount_point(path: str, *, directory: bool) -> None:
    """Make an empty directory or file to mount on, with its parents, if there is none."""
    if directory:
        make_directory(path)
    elif kind_of(path) == "absent":
        make_directory(path.rpartition("/")[0])
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def make_directory(path: str) -> None:
    """Make a directory and its parents, unless it is there."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directory(path.rpartition("/")[0])
        os.mkdir(path)
    except OSError as error:
        # A read-only filesystem complains even about a directory that is there.
        if error.errno != errno.EROFS or kind_of(path) != "directory":
            raise
