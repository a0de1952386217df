"""pause: hold the namespaces open, reap what is left behind, end on SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence


def main(_argv: Sequence[str] = ()) -> int:
    """Sleep until SIGTERM or SIGINT."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        signal.pause()


def _leave(_signal: int, _frame: object) -> None:
    sys.exit(0)


def _reap(_signal: int, _frame: object) -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass  # none left
