"""Waiting for what will happen: a condition with a deadline, instead of a sleep."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_PAUSE = 0.005  # seconds between two looks


def eventually(
    condition: Callable[[], object],
    seconds: float = 10.0,
    why: Callable[[], object] | None = None,
    *,
    pause: float = _PAUSE,
) -> None:
    """Return as soon as ``condition()`` is true; fail when it is not in time.

    ``why`` is asked for what is the case instead, once it is too late.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not so within {seconds} s: {why() if why else condition}")
        threading.Event().wait(pause)
