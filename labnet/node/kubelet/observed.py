"""What is the case with one pod: its processes and what the probes say of them.

The runtime lists every process it started, the ended ones too until they are
forgotten. Grouped by container and ordered by attempt they are the pod's whole
history as far as anything depends on it, so the kubelet keeps none of its own: a
restarted one reads the same list and decides the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from labnet.clock import parse_rfc3339
from labnet.sandbox import planner
from labnet.sandbox.spec import Process


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container is not there yet: a reason for its status, and when to try again."""

    reason: str
    message: str
    since: float = 0.0  # seconds on the kubelet's monotonic clock
    retry_at: float = 0.0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """What the probes of one running container have found so far."""

    started: bool = True  # no startup probe, or it has succeeded
    ready: bool = True  # no readiness probe, or it succeeds
    failed: str = ""  # the liveness or startup probe that gave it up: "Liveness", …


@dataclass(frozen=True, slots=True)
class Run:
    """One start of one container."""

    process: Process
    attempt: int
    backoff: float
    hash: str

    @property
    def running(self) -> bool:
        """Return whether it still runs."""
        return self.process.exit is None

    @property
    def succeeded(self) -> bool:
        """Return whether it ended with code 0."""
        return self.process.exit is not None and self.process.exit.code == 0

    @property
    def seconds(self) -> float:
        """Return how long it ran; 0 while it runs."""
        if self.process.exit is None:
            return 0.0
        ended = parse_rfc3339(self.process.exit.finished)
        return (ended - parse_rfc3339(self.process.started)).total_seconds()


@dataclass(frozen=True, slots=True)
class Observed:
    """The state of one pod on this node at one moment."""

    sandboxes: tuple[Process, ...] = ()  # by attempt
    runs: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)  # by attempt
    address: IPv4Address | None = None
    health: Mapping[str, Health] = field(default_factory=dict)  # by container id
    waiting: Mapping[str, Waiting] = field(default_factory=dict)  # by container name
    sandbox_waiting: Waiting | None = None

    @property
    def sandbox(self) -> Process | None:
        """Return the sandbox that runs, None if there is none."""
        last = self.sandboxes[-1] if self.sandboxes else None
        return last if last and last.exit is None else None

    def last(self, container: str) -> Run | None:
        """Return the newest start of ``container``."""
        runs = self.runs.get(container, ())
        return runs[-1] if runs else None

    def current(self, container: str) -> Run | None:
        """Return the newest start of ``container`` in the sandbox that runs."""
        run, sandbox = self.last(container), self.sandbox
        return run if run and sandbox and run.process.sandbox == sandbox.id else None

    @property
    def running(self) -> tuple[tuple[str, Run], ...]:
        """Return every container that runs."""
        return tuple((n, r) for n, runs in self.runs.items() for r in runs if r.running)

    def health_of(self, run: Run) -> Health:
        """Return what the probes say; nothing yet counts as healthy."""
        return self.health.get(run.process.id, Health())


def observed(
    processes: Iterable[Process],
    *,
    address: IPv4Address | None = None,
    health: Mapping[str, Health] | None = None,
    waiting: Mapping[str, Waiting] | None = None,
    sandbox_waiting: Waiting | None = None,
) -> Observed:
    """Return the state of one pod from its ``processes``, in any order."""
    sandboxes, runs = [], {}  # type: list[Process], dict[str, list[Run]]
    for process in processes:
        if process.kind == "sandbox":
            sandboxes.append(process)
        elif process.kind == "container":
            run = _run(process)
            runs.setdefault(dict(process.labels)[planner.CONTAINER], []).append(run)
    return Observed(
        tuple(sorted(sandboxes, key=attempt_of)),
        {name: tuple(sorted(found, key=lambda r: r.attempt)) for name, found in runs.items()},
        address,
        health or {},
        waiting or {},
        sandbox_waiting,
    )


def attempt_of(process: Process) -> int:
    """Return the attempt at the end of a sandbox's or container's id."""
    return int(process.id.rpartition("/")[2])


def _run(process: Process) -> Run:
    labels = dict(process.labels)
    return Run(
        process,
        attempt_of(process),
        float(labels.get(planner.BACKOFF, 0)),
        labels.get(planner.HASH, ""),
    )
