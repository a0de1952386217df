"""How long PID 1 waits before it starts a component again.

The first restart is at once, so that killing a component shows what the cluster does
without it and not how patient PID 1 is. A component that keeps ending waits 1, 2, 4 …
30 seconds; one that ran for ten seconds has earned a new start.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST, LONGEST, FORGIVEN_AFTER = 1.0, 30.0, 10.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often a component has ended in a row without running long."""

    failures: int = 0

    def after(self, ran: float) -> Backoff:
        """Return the state after a run of ``ran`` seconds ended."""
        return Backoff(1 if ran >= FORGIVEN_AFTER else self.failures + 1)

    @property
    def delay(self) -> float:
        """Seconds until the next start."""
        if self.failures <= 1:
            return 0.0
        return float(min(LONGEST, FIRST * 2 ** min(self.failures - 2, 10)))
