"""Waiting for what will happen: a condition with a deadline, instead of a sleep."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Return as soon as ``condition()`` holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so within {seconds} s: {condition}"
        threading.Event().wait(0.005)
