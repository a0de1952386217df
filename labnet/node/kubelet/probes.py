"""Probes: when each is due, and what a row of successes or failures means.

A startup probe must succeed before the other two are asked; a readiness probe decides
whether the pod gets traffic; a liveness probe restarts the container. One success or
one failure seldom counts: ``successThreshold`` and ``failureThreshold`` are numbers of
equal results in a row (kubernetes ``pkg/kubelet/prober/worker.go``). A container is
unready until its readiness probe has succeeded, and alive until its liveness probe has
failed.

One rule is labnet's own. The first run comes a tenth of a second after the start, when
a server has usually just begun to listen; if it is too early, a readiness or startup
probe asks again after 0.2, 0.4, 0.8 … seconds up to its period, and such an early
failure counts for nothing. Otherwise every pod with a readiness probe would cost a
whole period, ten seconds by default.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from labnet.node.kubelet.observed import Health
from labnet.sandbox.pod import Container, Probe

Kind = Literal["Startup", "Readiness", "Liveness"]
FIRST_RUN = 0.1


@dataclass(frozen=True, slots=True)
class Track:
    """One probe of one running container, and its row of equal results."""

    kind: Kind
    probe: Probe
    next_run: float  # seconds on the monotonic clock
    begun: float
    verdict: bool | None = None  # what counts now; None: nothing yet
    row: int = 0
    last: bool | None = None
    early: int = 0  # early failures that were forgiven


def tracks(container: Container, now: float) -> tuple[Track, ...]:
    """Return the probes of a container that was started at ``now``."""
    kinds: tuple[tuple[Kind, Probe | None], ...] = (
        ("Startup", container.startup),
        ("Readiness", container.readiness),
        ("Liveness", container.liveness),
    )
    return tuple(
        Track(kind, probe, now + max(FIRST_RUN, probe.initial_delay), now)
        for kind, probe in kinds
        if probe is not None
    )


def recorded(track: Track, success: bool, now: float) -> Track:
    """Return ``track`` after one more result."""
    probe = track.probe
    if not success and _too_early(track, now):
        pause = FIRST_RUN * 2 ** (track.early + 1)
        return replace(track, early=track.early + 1, next_run=now + min(pause, probe.period))
    row = track.row + 1 if track.last == success else 1
    needed = probe.success_threshold if success else probe.failure_threshold
    return replace(
        track,
        last=success,
        row=row,
        verdict=success if row >= needed else track.verdict,
        next_run=max(track.next_run + probe.period, now),
    )


def _too_early(track: Track, now: float) -> bool:
    if track.kind == "Liveness" or track.last is not None:
        return False
    return now < track.begun + track.probe.initial_delay + track.probe.period


def health(found: tuple[Track, ...]) -> Health:
    """Return what all probes of a container say together."""
    by_kind = {track.kind: track for track in found}
    startup, readiness = by_kind.get("Startup"), by_kind.get("Readiness")
    failed = next((t.kind for t in found if t.kind != "Readiness" and t.verdict is False), "")
    started = startup is None or startup.verdict is True
    return Health(started, started and (readiness is None or readiness.verdict is True), failed)


def due(found: tuple[Track, ...], now: float) -> tuple[Track, ...]:
    """Return the probes to run now: the startup probe alone until it has succeeded."""
    return tuple(t for t in active(found) if t.next_run <= now)


def active(found: tuple[Track, ...]) -> tuple[Track, ...]:
    """Return the probes that have anything left to say."""
    startup = next((t for t in found if t.kind == "Startup"), None)
    if startup is not None and startup.verdict is not True:
        return () if startup.verdict is False else (startup,)
    rest = tuple(t for t in found if t.kind != "Startup")
    return () if any(t.kind == "Liveness" and t.verdict is False for t in rest) else rest
