"""`labnet up`: from a checked scenario to a lab that answers, in about a second and a half.

Most of that time is other programs starting, so what can overlap does: certificates are
made while PID 1's interpreter starts, etcd elects itself while PID 1 loads the modules
that its forks will share, files for people are written while the API server comes up.

Everything made is undone if any step fails or the person presses Ctrl-C, and even if
this process is killed: until ``ready`` is said, PID 1 ends with the pipe whose other end
is here. With ``keep`` a lab that started but does not get ready stays, to be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from labnet.clock import Clock
from labnet.errors import LabnetError
from labnet.lab import capabilities, describe
from labnet.lab.compose import WIRE, Composition, composition
from labnet.lab.control import Api
from labnet.lab.objects import apply
from labnet.lab.progress import Timeline
from labnet.lab.readiness import Cluster, Door, doors
from labnet.lab.sandboxed import Sandbox, raise_sandbox, undoing
from labnet.lab.state import LabInfo, StateDirectory, write_info
from labnet.lab.waiting import Report, Waiting, dialling
from labnet.sandbox.spec import Process
from labnet.scenario.model import Lab

_ONE_ANSWER = 2.0  # seconds; a request may have to wait until the API server listens


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asks of `up` beside the scenario."""

    source: Path
    api_port: int = 0  # 0: any free one
    seconds: float = 60.0  # how long to wait until everything is ready
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """A lab that is up; ``pidfd`` becomes readable when it ends, the caller closes it."""

    state: StateDirectory
    info: LabInfo
    pidfd: int
    cluster: Cluster
    doors: tuple[Door, ...]


def up(lab: Lab, wishes: Wishes, clock: Clock, timeline: Timeline) -> Running:
    """Start ``lab`` and wait until it works.

    Raises ``AlreadyExists`` if a lab of that name runs, ``Unsupported`` if this machine
    lacks something, ``LabnetError`` with an explanation if it does not get ready; then
    nothing of it is left, unless ``wishes.keep``.
    """
    programs = capabilities.programs()
    capabilities.require_programs(programs)
    plan = composition(lab, programs["etcd"])
    with undoing() as undo:
        sandbox = raise_sandbox(lab, plan, wishes.source, wishes.api_port, timeline, undo)
        _start(plan, sandbox, timeline)
        info = _describe(lab, plan, wishes, sandbox, clock)
        try:
            cluster, open_doors = _until_it_works(lab, wishes, sandbox, clock, timeline)
        except LabnetError as error:
            if not wishes.keep:
                error.hint = error.hint or f"to look at it: labnet up {wishes.source} --keep"
                raise
            _let_go(sandbox, undo)
            error.hint = (
                f"{error.hint or 'look at its logs'}; it still runs: labnet down {lab.name}"
            )
            raise
        _let_go(sandbox, undo)
    return Running(sandbox.state, info, sandbox.launched.pidfd, cluster, open_doors)


def _start(plan: Composition, sandbox: Sandbox, timeline: Timeline) -> None:
    """Start everything; etcd first, because it needs none of PID 1's modules."""
    zygote = sandbox.zygote
    etcd, *others = plan.components
    zygote.component(etcd)
    with timeline.step("Underlay"):
        zygote.run(WIRE, plan.underlay)
    # All at once: each is answered when its component runs. PID 1 imports what the next
    # one needs while the last one starts, so the API server is not kept by the kubelet's.
    with timeline.step("Components"), ThreadPoolExecutor(len(others)) as pool:
        list(pool.map(zygote.component, others))
    if missing := zygote.preload():
        raise LabnetError(f"PID 1 cannot import {', '.join(missing)}", hint="labnet doctor")


def _describe(
    lab: Lab, plan: Composition, wishes: Wishes, sandbox: Sandbox, clock: Clock
) -> LabInfo:
    info = describe.info(
        lab,
        plan,
        pid=sandbox.launched.pid,
        api_port=sandbox.api_port,
        source=wishes.source,
        started=clock.now(),
    )
    describe.write_kubeconfig(sandbox.state, info.api)
    write_info(sandbox.state, info)
    return info


def _until_it_works(
    lab: Lab, wishes: Wishes, sandbox: Sandbox, clock: Clock, timeline: Timeline
) -> tuple[Cluster, tuple[Door, ...]]:
    nodes = [node.name for node in lab.nodes if node.components.get("kubelet", True)]
    waiting = Waiting(clock, wishes.seconds)
    zygote, pki, port = sandbox.zygote, sandbox.state.pki, sandbox.api_port
    with _step(timeline, "API server") as report, closing(Api(pki, port, _ONE_ANSWER)) as api:
        waiting.until_api_answers(api, lambda: _components(sandbox), report)
    with closing(Api(pki, port)) as api:
        with timeline.step("Objects"):
            apply(api.client, lab.objects)
        with _step(timeline, "Nodes and pods") as report:
            cluster = waiting.until_ready(api, nodes, report)
    with _step(timeline, "Services") as report:
        waiting.until_answering(doors(cluster), nodes, dialling(zygote.dial), report)
    return cluster, doors(cluster)


@contextmanager
def _step(timeline: Timeline, name: str) -> Iterator[Report]:
    """A step that can say what it is waiting for."""
    with timeline.step(name):
        yield partial(timeline.waiting, name)


def _components(sandbox: Sandbox) -> list[Process]:
    return [one for one in sandbox.zygote.list() if one.kind == "component"]


def _let_go(sandbox: Sandbox, undo: ExitStack) -> None:
    """From now on the lab lives without us."""
    sandbox.zygote.ready()
    undo.pop_all()
    sandbox.zygote.close()
