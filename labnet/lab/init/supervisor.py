"""Components: started in their host's namespaces, started again when they end.

A component is what the registry has under its name, plus the intention: wanted or not.
Everything that happens to it (its end, a stop, a restart) is looked at in one place,
:meth:`Supervisor._ended`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from labnet.errors import AlreadyExists, NotFound
from labnet.lab.init import become
from labnet.lab.init.backoff import Backoff
from labnet.lab.init.forks import Report, start
from labnet.lab.init.loop import Loop
from labnet.lab.init.preload import Preload
from labnet.lab.init.registry import Registry
from labnet.lab.init.say import say
from labnet.sandbox.spec import ComponentSpec, Process

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL when a component is stopped."""

OnStarted = Callable[[Report, int], None]
OnStopped = Callable[[], None]


@dataclass(slots=True)
class Component:
    """One component and what is wanted of it."""

    spec: ComponentSpec
    wanted: bool = True
    backoff: Backoff = field(default_factory=Backoff)
    began: float = 0.0
    restarts: int = 0
    timer: int | None = None
    on_stopped: list[OnStopped] = field(default_factory=list)


class Supervisor:
    """Keeps the wanted components running."""

    def __init__(
        self, loop: Loop, registry: Registry, preload: Preload, listeners: Mapping[str, int]
    ) -> None:
        self._loop = loop
        self._registry = registry
        self._preload = preload
        self._listeners = listeners
        self._components: dict[str, Component] = {}

    def add(self, spec: ComponentSpec, on_started: OnStarted) -> None:
        """Start a new component, or one that was stopped, with another spec."""
        known = self._components.get(spec.name)
        if known is not None and known.wanted:
            raise AlreadyExists(f"component {spec.name} is there already")
        if missing := [name for name in spec.sockets if name not in self._listeners]:
            raise NotFound(f"component {spec.name}: no listener called {', '.join(missing)}")
        self._registry.running(host_id(spec.host), f"host {spec.host}")
        self._components[spec.name] = component = Component(spec)
        self._start(component, on_started)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a component that runs."""
        self._get(name)
        entry = self._registry.running(name, f"component {name}")
        signal.pidfd_send_signal(entry.pidfd, number)

    def stop(self, name: str, on_stopped: OnStopped) -> None:
        """End a component with SIGTERM, with SIGKILL after a while; keep it ended."""
        component = self._get(name)
        component.wanted = False
        self._cancel(component)
        entry = self._registry.find(name)
        if entry is None or entry.process.exit is not None:
            on_stopped()
            return
        component.on_stopped.append(on_stopped)
        signal.pidfd_send_signal(entry.pidfd, signal.SIGTERM)
        self._loop.later(GRACE, partial(self._kill, component, entry.process.pid))

    def _kill(self, component: Component, pid: int) -> None:
        entry = self._registry.find(component.spec.name)
        if not component.wanted and entry is not None and entry.process.pid == pid:
            signal.pidfd_send_signal(entry.pidfd, signal.SIGKILL)

    def restart(self, name: str, on_started: OnStarted) -> None:
        """End a component if it runs, then start it at once."""

        def again() -> None:
            component.wanted = True
            component.backoff = Backoff()
            component.restarts += 1
            self._start(component, on_started)

        component = self._get(name)
        self.stop(name, again)

    def _get(self, name: str) -> Component:
        if name not in self._components:
            raise NotFound(f"there is no component {name}", hint=f"there are {self._names()}")
        return self._components[name]

    def _names(self) -> str:
        return ", ".join(self._components) or "none"

    def _cancel(self, component: Component) -> None:
        if component.timer is not None:
            self._loop.cancel(component.timer)
            component.timer = None

    # -- one run -------------------------------------------------------------------------

    def _start(self, component: Component, on_started: OnStarted) -> None:
        spec = component.spec
        host = self._registry.running(host_id(spec.host), f"host {spec.host}")
        self._preload.need(spec.entry.partition(":")[0])
        if (old := self._registry.find(spec.name)) is not None:
            self._registry.remove(old)
        listeners = {name: self._listeners[name] for name in spec.sockets}
        task = partial(become.component, spec, host.pidfd, listeners)

        def reported(report: Report) -> None:
            failed = "error" in report
            if failed:
                say(f"{spec.name}: does not start: {report['error'].get('message')}")
            if failed and not component.restarts:  # it never ran: nothing to repair
                del self._components[spec.name]
                self._registry.remove(entry)
            else:
                entry.on_end.append(partial(self._ended, component))
                self._registry.confirm(entry)
            on_started(report, pid)

        forked = start(self._loop, task, (host.pidfd, *listeners.values()), reported)
        pid = forked.pid
        process = Process(spec.name, "component", spec.host, pid, "", restarts=component.restarts)
        entry = self._registry.add(process, spec, forked.pidfd)
        component.began = self._loop.clock.monotonic()

    def _ended(self, component: Component, process: Process) -> None:
        code = process.exit.code if process.exit else 0
        say(f"{process.id}: ended with {code}")
        callbacks, component.on_stopped = component.on_stopped, []
        if not component.wanted or not component.spec.restart:
            component.wanted = False
            for callback in callbacks:
                callback()
            return
        ran = self._loop.clock.monotonic() - component.began
        component.backoff = component.backoff.after(ran)
        component.timer = self._loop.later(component.backoff.delay, partial(self._again, component))

    def _again(self, component: Component) -> None:
        component.timer = None
        component.restarts += 1
        try:
            self._start(component, _nobody_asks)
        except NotFound as error:  # its host has ended, and its namespaces with it
            say(f"{component.spec.name}: not started again: {error}")
            component.wanted = False
        except OSError as error:  # no memory, or too many processes: perhaps later
            say(f"{component.spec.name}: not started again yet: {error}")
            component.backoff = component.backoff.after(ran=0)
            delay = component.backoff.delay
            component.timer = self._loop.later(delay, partial(self._again, component))


def _nobody_asks(report: Report, pid: int) -> None:
    """A restart has no request to answer; failures are in the log."""


def host_id(name: str) -> str:
    """Return the registry's id of a host's holder."""
    return f"host/{name}"
