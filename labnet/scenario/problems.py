"""What is wrong with a scenario file, where, and what would be right.

Nothing stops at the first problem: every stage of loading adds to one list, and the
person who wrote the file sees all of it at once, in the order of the file, in the
``file:line:column: message`` form that editors can jump to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from labnet.errors import ScenarioError


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A position in a file (1-based), or an option of the command line (line 0)."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing to correct."""

    place: Place
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(slots=True)
class Problems:
    """The list that every stage adds to."""

    found: list[Problem] = field(default_factory=list)

    def add(self, place: Place, message: str) -> None:
        """Note that ``message`` is wrong at ``place``."""
        problem = Problem(place, message)
        if problem not in self.found:
            self.found.append(problem)

    def stop_if_any(self, source: str) -> None:
        """Raise ``ScenarioError`` with everything found so far, if anything was."""
        if not self.found:
            return
        count = len(self.found)
        raise ScenarioError(
            "\n".join(str(problem) for problem in sorted(self.found)),
            hint=f"{count} problem{'s' if count > 1 else ''} in {source}; nothing was started",
        )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean "x"?`` for the known word nearest to ``word``, or ``""``."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f'; did you mean "{close[0]}"?' if close else ""
