"""Time as something that is handed in.

Loops, leases and back-off ask a :class:`Clock` instead of the machine, so a test
can let forty seconds pass in none. ``now`` is wall time for what is written into
objects (RFC 3339); ``monotonic`` is for durations and never steps backwards.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """Return the current wall time, in UTC."""

    def monotonic(self) -> float:
        """Return seconds on a clock that only goes forward."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Return the current wall time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary point, unaffected by clock changes."""
        return time.monotonic()


class FakeClock:
    """A clock that stands still until it is told to ``advance``."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._monotonic = 0.0

    def now(self) -> datetime:
        """Return the time it was last set to."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds it has been advanced by."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


def rfc3339(moment: datetime) -> str:
    """Return ``moment`` as Kubernetes writes a ``metav1.Time``: whole seconds, Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """Return ``moment`` as a ``metav1.MicroTime`` (leases, events)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> datetime:
    """Return the moment that a ``metav1.Time`` or ``MicroTime`` names."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
