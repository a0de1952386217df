"""A filter on system calls that makes programs for real root work with one uid.

Where a lab runs as an ordinary user, its namespace has exactly one uid, root. tcpdump
opens its socket as root and then becomes user ``tcpdump``; the kernel answers EINVAL
because that uid is not mapped, and tcpdump gives up. The filter answers 0 instead for
every change of user or group: the program goes on as the only user there is. Nothing is
lost by that, since this "root" is the person who started the lab.

The filter is classic BPF over ``struct seccomp_data`` (number, architecture, …): twelve
instructions per system call, inherited by all children, and not removable.
"""

from __future__ import annotations

import ctypes
import platform
import struct

from labnet.linux.libc import call

_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO_ZERO = 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCH_AT = 0, 4

# AUDIT_ARCH, then setregid, setgid, setreuid, setuid, setresuid, setresgid, setgroups.
_MACHINES = {
    "x86_64": (0xC000003E, (114, 106, 113, 105, 117, 119, 116)),
    "aarch64": (0xC00000B7, (143, 144, 145, 146, 147, 149, 159)),
}


def program(machine: str) -> bytes:
    """Return the filter for ``machine`` (as ``platform.machine()`` names it), or nothing."""
    if machine not in _MACHINES:
        return b""
    arch, numbers = _MACHINES[machine]
    allow, pretend = len(numbers) + 3, len(numbers) + 4
    code = [(_LOAD, 0, 0, _ARCH_AT), (_JUMP_EQUAL, 0, allow - 2, arch), (_LOAD, 0, 0, _NUMBER_AT)]
    code += [
        (_JUMP_EQUAL, pretend - index - 1, 0, number) for index, number in enumerate(numbers, 3)
    ]
    code += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO_ZERO)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def pretend_user_changes() -> None:
    """Answer success to every further change of uid, gid or groups, and do nothing.

    For the calling process and all it starts. Needs CAP_SYS_ADMIN in its user namespace,
    or no_new_privs. On a machine that the filter is not written for, nothing changes.
    """
    code = program(platform.machine())
    if not code:
        return
    instructions = ctypes.create_string_buffer(code, len(code))
    filter_ = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(instructions))
    call("prctl", _SET_SECCOMP, _MODE_FILTER, filter_, 0, 0, what="seccomp filter")
