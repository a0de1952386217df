"""Becoming root in a user namespace, and why a machine may refuse it.

An ordinary user may make a user namespace and map one id into it: itself, as root.
In there it has every capability over namespaces made afterwards, and none over the
machine. ``setgroups`` has to be given up first, since dropping a group can *gain*
access where a file denies it to that group (CVE-2014-8989).

Distributions switch this off in three different ways; each is told apart here, so that
the error names the setting and the command.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from labnet.errors import LabnetError, Unsupported
from labnet.linux.namespaces import NEWUSER, unshare

_APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
_CLONE = "kernel.unprivileged_userns_clone"
_MAX = "user.max_user_namespaces"


def become_root() -> None:
    """Enter a new user namespace as its root. Raises ``Unsupported`` with the reason."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        unshare(NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise refusal(error) from error
    one_uid.cache_clear()


@cache
def one_uid() -> bool:
    """Return whether the caller's user namespace maps a single uid.

    Read once: a lab's processes all have the user namespace of its PID 1, and a fork
    should not spend a millisecond on what its parent knows.
    """
    lines = Path("/proc/self/uid_map").read_text().splitlines()
    return len(lines) == 1 and int(lines[0].split()[2]) == 1


def sysctl(name: str) -> int | None:
    """Return a sysctl's value, or None where this kernel does not have it."""
    try:
        return int(Path("/proc/sys", *name.split(".")).read_text())
    except (OSError, ValueError):
        return None


def refusal(error: OSError, setting: Callable[[str], int | None] = sysctl) -> LabnetError:
    """Return why namespaces were refused with ``error``, and which setting allows them."""
    what = "this machine does not let you make namespaces"
    if setting(_MAX) == 0 or error.errno == errno.ENOSPC:
        return _switched_off(what, _MAX, setting(_MAX), wanted=15000)
    if setting(_CLONE) == 0:
        return _switched_off(what, _CLONE, 0, wanted=1)
    if setting(_APPARMOR) == 1:
        return _switched_off(f"{what} (AppArmor)", _APPARMOR, 1, wanted=0)
    cause = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    return Unsupported(
        f"{what}: {cause}",
        hint="inside a container, start it with --privileged or with "
        "--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
        "--security-opt systempaths=unconfined",
    )


def _switched_off(what: str, name: str, value: int | None, wanted: int) -> Unsupported:
    return Unsupported(f"{what}: {name} = {value}", hint=f"sudo sysctl -w {name}={wanted}")
