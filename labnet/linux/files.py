"""Writing a file so that nobody ever reads half of it.

``rename`` puts one file in the place of another in a single step: whoever opens the path
gets the old content or the new, also when the writer is killed in between. What is written
is a hidden neighbour in the same directory, because rename does not cross file systems.
"""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Make ``path`` contain ``text`` in one step, its directories too if they are missing.

    For one writer at a time. Raises ``OSError``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    beside.replace(path)
