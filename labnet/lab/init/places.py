"""Directories with a fixed meaning inside a lab, and how private ones are laid over.

Inside, the lab's state directory is /run/labnet, and every host's network namespace is
a mount below /run/netns, where ``ip netns`` looks for them. /run, /tmp, /var/lib and
/var/log are private to each host, but what the lab itself is run from (the Python
installation, labnet, perhaps etcd) may lie below one of them: such paths are shown
again on top.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import labnet
from labnet.linux import mounts

STATE = Path("/run/labnet")
NETNS = Path("/run/netns")
ROOTS = "/run/containers/root"
"""Where a container's root is built; each container has a mount namespace of its own."""

_PRIVATE = (("/run", "755"), ("/tmp", "1777"), ("/var/lib", "755"), ("/var/log", "755"))


def own_code() -> tuple[str, ...]:
    """Return the directories that Python and labnet are run from."""
    package = str(Path(labnet.__file__).resolve().parent.parent)
    return tuple(dict.fromkeys((package, sys.prefix, sys.base_prefix)))


def exposed(keep: Iterable[str], private: Sequence[str]) -> tuple[str, ...]:
    """Return the paths among ``keep`` that private directories would hide, parents first."""
    return tuple(
        sorted({path for path in keep for hiding in private if path.startswith(f"{hiding}/")})
    )


def lay_private(directories: Sequence[str], shown: Iterable[str]) -> None:
    """Mount an empty tmpfs over each directory, with the paths ``shown`` visible in it.

    Each shown path is held by a descriptor while its place is covered. A bind mount of a
    shared mount stays in its peer group, so network namespaces bound later appear too.
    """
    held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in shown if Path(path).exists()}
    for directory, mode in _PRIVATE:
        if directory in directories and Path(directory).is_dir():
            mounts.mount("tmpfs", directory, "tmpfs", mounts.NOSUID, f"mode={mode}")
    for path, descriptor in held.items():
        mounts.mount_point(path, directory=Path(f"/proc/self/fd/{descriptor}").is_dir())
        mounts.bind(f"/proc/self/fd/{descriptor}", path)
        os.close(descriptor)
