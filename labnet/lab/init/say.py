"""PID 1's own log: one line on stderr, which is ``logs/init.log``.

Not through ``logging``: forks inherit its configuration, and each component brings its own.
"""

from __future__ import annotations

import os
from contextlib import suppress

from labnet.clock import SystemClock, rfc3339_micro


def say(text: str) -> None:
    """Write a line with the time."""
    with suppress(OSError):
        os.write(2, f"{rfc3339_micro(SystemClock().now())} {text}\n".encode())
