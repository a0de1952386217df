"""Reading component logs: plain files in the lab's state directory.

PID 1 writes each component's stdout and stderr to ``logs/<name>.log`` and appends across
restarts, so what a component said before it died stands above what it says now. The
files outlive the lab's processes until `labnet down`: a dead lab can be asked why.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path

from labnet.errors import NotFound
from labnet.lab.state import StateDirectory

_BLOCK = 64 * 1024
_LOOK_AGAIN = 0.1  # seconds; only while somebody follows


def names(state: StateDirectory) -> list[str]:
    """Return the components of which there is a log."""
    return sorted(path.stem for path in state.logs.glob("*.log"))


def find(state: StateDirectory, component: str) -> Path:
    """Return the log of ``component``; ``NotFound`` says which ones there are."""
    known = names(state)
    if component in known:
        return state.logs / f"{component}.log"
    ours = [name for name in known if name.split("@")[0] == component]
    if len(ours) == 1:
        return state.logs / f"{ours[0]}.log"
    raise NotFound(
        f"lab {state.name} has no log of {component!r}",
        hint=_hint(ours or get_close_matches(component, known, n=3), known),
    )


def _hint(near: list[str], known: list[str]) -> str:
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"there are: {', '.join(known)}" if known else "no component has written anything yet"


def last_lines(path: Path, count: int | None) -> bytes:
    """Return the last ``count`` lines of a log, or all of it."""
    content = path.read_bytes()
    if count is None:
        return content
    return b"".join(content.splitlines(keepends=True)[-count:]) if count else b""


def follow(path: Path, count: int | None, alive: Callable[[], bool]) -> Iterator[bytes]:
    """Yield the last ``count`` lines, then what is appended, until ``alive`` says no."""
    pause = threading.Event()
    with path.open("rb") as file:
        yield last_lines(path, count)
        file.seek(0, os.SEEK_END)
        while True:
            still_alive = alive()
            while block := file.read(_BLOCK):
                yield block
            if not still_alive:
                return
            pause.wait(_LOOK_AGAIN)
