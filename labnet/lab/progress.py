"""What `up` is doing, as values: the CLI draws them, `--timings` adds them up.

A step starts, may say what it is waiting for, and ends; steps overlap (certificates are
made while PID 1 loads its modules), so a time line is kept rather than a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from labnet.clock import Clock

State = Literal["started", "waiting", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Progress:
    """One thing that happened during `up`."""

    step: str  # "Underlay"
    state: State
    at: float  # seconds since the command started
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when a step lasted, in seconds since the command started."""

    step: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Return how long it took."""
        return self.end - self.start


Listener = Callable[[Progress], None]


@dataclass(slots=True)
class Timeline:
    """Measures steps and tells a listener about each as it happens.

    ``origin`` is the moment on the clock from which all times count: taken as early as
    possible, so that the interpreter's own start is not forgotten.
    """

    clock: Clock
    listener: Listener
    origin: float
    spans: list[Span] = field(default_factory=list)

    def now(self) -> float:
        """Return the seconds since the origin."""
        return self.clock.monotonic() - self.origin

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Report ``name`` as started, and as done or failed when the block ends."""
        start = self.now()
        self.listener(Progress(name, "started", start))
        try:
            yield
        except BaseException:
            self.listener(Progress(name, "failed", self.now()))
            raise
        end = self.now()
        self.spans.append(Span(name, start, end))
        self.listener(Progress(name, "done", end))

    def waiting(self, step: str, detail: str) -> None:
        """Report what ``step`` is waiting for."""
        self.listener(Progress(step, "waiting", self.now(), detail))
