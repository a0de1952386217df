"""The prober: one thread that knows what is due, a few that ask.

A node of fifty pods has some hundred probes, nearly all of them waiting. They wait
here, in one list; when one is due its check goes to a small pool, and what it found
comes back through ``on_change`` only where it changed the verdict. An event says so for
every failure that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from ipaddress import IPv4Address
from threading import Condition

from labnet.clock import Clock
from labnet.node.kubelet import probes
from labnet.node.kubelet.checks import Outcome
from labnet.node.kubelet.observed import Health
from labnet.node.kubelet.probes import Track
from labnet.sandbox.pod import Container, Pod, Probe


@dataclass(frozen=True, slots=True)
class Target:
    """One running container that is being probed."""

    pod: Pod
    container: Container
    id: str  # of the container at the runtime
    address: IPv4Address  # the pod's


Check = Callable[[Target, Probe], Outcome]
Report = Callable[[Target, Track, Outcome], None]


class Prober:
    """Runs the probes of the containers it is told of. All methods from any thread.

    ``check`` carries one probe out and may block for its timeout; ``on_change`` is
    called with a pod's uid when :meth:`health` has changed; ``on_failure`` with every
    failure that counts.
    """

    def __init__(
        self,
        clock: Clock,
        pool: Executor,
        check: Check,
        on_change: Callable[[str], None],
        on_failure: Report,
    ) -> None:
        self._clock, self._pool, self._check = clock, pool, check
        self._on_change, self._on_failure = on_change, on_failure
        self._changed = Condition()
        self._tracks: dict[str, tuple[Track, ...]] = {}
        self._targets: dict[str, Target] = {}
        self._asking: set[tuple[str, str]] = set()
        self._closed = False

    def watch(self, target: Target) -> None:
        """Probe a container that has just started, or was found running."""
        with self._changed:
            if target.id in self._tracks:
                return
            if found := probes.tracks(target.container, self._clock.monotonic()):
                self._tracks[target.id], self._targets[target.id] = found, target
                self._changed.notify()

    def forget(self, container_id: str) -> None:
        """Stop probing a container."""
        with self._changed:
            self._tracks.pop(container_id, None)
            self._targets.pop(container_id, None)

    def health(self, ids: tuple[str, ...]) -> Mapping[str, Health]:
        """Return what the probes say of those of ``ids`` that have any."""
        with self._changed:
            return {i: probes.health(self._tracks[i]) for i in ids if i in self._tracks}

    def run(self) -> None:
        """Ask whatever is due, until closed."""
        while True:
            with self._changed:
                if self._closed:
                    return
                pause = self._pause()
                if pause is None or pause > 0:
                    self._changed.wait(pause)
                    continue
            self.ask_due()

    def ask_due(self) -> None:
        """Hand every probe that is due to the pool."""
        with self._changed:
            now = self._clock.monotonic()
            ready = [
                (self._targets[i], track)
                for i, found in self._tracks.items()
                for track in probes.due(found, now)
                if (i, track.kind) not in self._asking
            ]
            self._asking |= {(target.id, track.kind) for target, track in ready}
        for target, track in ready:
            self._pool.submit(self._ask, target, track)

    def close(self) -> None:
        """Make :meth:`run` return."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _pause(self) -> float | None:
        times = [
            track.next_run
            for i, found in self._tracks.items()
            for track in probes.active(found)
            if (i, track.kind) not in self._asking
        ]
        return min(times) - self._clock.monotonic() if times else None

    def _ask(self, target: Target, track: Track) -> None:
        outcome = self._check(target, track.probe)
        with self._changed:
            self._asking.discard((target.id, track.kind))
            found = self._tracks.get(target.id)
            if found is None:
                return
            before = probes.health(found)
            after = probes.recorded(track, outcome.ok, self._clock.monotonic())
            self._tracks[target.id] = tuple(after if t.kind == track.kind else t for t in found)
            changed = probes.health(self._tracks[target.id]) != before
            self._changed.notify()
        if not outcome.ok and after.row:
            self._on_failure(target, after, outcome)
        if changed:
            self._on_change(target.pod.uid)
