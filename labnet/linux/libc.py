"""The door to system calls that Python's ``os`` does not have.

Calls go through ctypes to the C library that the interpreter already uses. ``PyDLL``
keeps the interpreter's lock: these calls change what the *calling thread* is (its
namespaces, its capabilities), none of them waits, and callers are single-threaded.
A failure is an ``OSError`` whose ``filename`` names the object, so that what a person
reads is ``/run/netns/node1: Permission denied`` and not a bare number.
"""

from __future__ import annotations

import ctypes
import os
import platform

_LIBC = ctypes.PyDLL(None, use_errno=True)
_ARM = platform.machine() in ("aarch64", "arm64")
# System calls without a wrapper in every C library, by number (x86-64, arm64).
_NUMBERS = {"pivot_root": (155, 41), "capget": (125, 90), "capset": (126, 91)}


def call(name: str, *arguments: object, what: str) -> int:
    """Call the C library's ``name``; return its result. Raises ``OSError`` about ``what``."""
    if name in _NUMBERS:
        number = _NUMBERS[name][1 if _ARM else 0]
        result: int = _LIBC.syscall(ctypes.c_long(number), *arguments)
    else:
        result = getattr(_LIBC, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result
