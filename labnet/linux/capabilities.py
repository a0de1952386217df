"""Capabilities: root's power in 41 pieces, and how a process gives most of them up.

A process has five sets. What counts here: the *bounding* set is the ceiling for every
program it will ever execute, the *permitted* set what it may use now. A container's
process drops the bounding set to what its pod is granted, then sets permitted and
effective to the same, then is not able to climb back (capabilities(7)).
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable

from labnet.errors import LabnetError
from labnet.linux.libc import call

NAMES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID",
    "SETUID", "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST",
    "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO",
    "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE",
    "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM",
    "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
)  # fmt: skip
"""By number, from the kernel's ``include/uapi/linux/capability.h``."""

_VERSION_3 = 0x20080522
_CAPBSET_DROP = 24
_AMBIENT, _AMBIENT_CLEAR_ALL = 47, 4


def mask(names: Iterable[str]) -> int:
    """Return the bit mask of capabilities named without ``CAP_``."""
    total = 0
    for name in names:
        if name not in NAMES:
            raise LabnetError(f"there is no capability {name}", hint="see capabilities(7)")
        total |= 1 << NAMES.index(name)
    return total


def limit_bounding_set(allowed: int) -> None:
    """Drop from the bounding set, for good, what is not in ``allowed``; needs SETPCAP."""
    for number, name in enumerate(NAMES):
        if not allowed >> number & 1:
            try:
                call("prctl", _CAPBSET_DROP, number, 0, 0, 0, what=f"dropping CAP_{name}")
            except OSError as error:
                if error.errno != errno.EINVAL:  # a kernel that does not know the newest
                    raise


def permitted() -> int:
    """Return the caller's permitted set."""
    header = struct.pack("Ii", _VERSION_3, 0)
    sets = ctypes.create_string_buffer(24)
    call("capget", header, sets, what="own capabilities")
    low, high = struct.unpack_from("I", sets, 4)[0], struct.unpack_from("I", sets, 16)[0]
    return int(low) | int(high) << 32


def limit(allowed: int) -> None:
    """Set permitted and effective to what is had of ``allowed``; clear the rest."""
    have = permitted() & allowed
    low, high = have & 0xFFFFFFFF, have >> 32
    header = struct.pack("Ii", _VERSION_3, 0)
    sets = struct.pack("6I", low, low, 0, high, high, 0)  # effective, permitted, inheritable
    call("prctl", _AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0, what="ambient capabilities")
    call("capset", header, sets, what="own capabilities")
