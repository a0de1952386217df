"""The verbs of the host's door only: hosts, components, one-shots, beginning and end."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from labnet.errors import LabnetError
from labnet.lab.init import become, hosts, places
from labnet.lab.init.boot import Boot
from labnet.lab.init.forks import Report, start
from labnet.lab.init.loop import Loop
from labnet.lab.init.preload import Preload
from labnet.lab.init.registry import Entry, Registry
from labnet.lab.init.server import Request, Verb
from labnet.lab.init.supervisor import Supervisor, host_id
from labnet.linux import mounts
from labnet.sandbox.protocol import Message, error_message, parse, plain
from labnet.sandbox.spec import ComponentSpec, Process
from labnet.sandbox.zygote import HostSpec


class LabVerbs:
    """What `up` asks for; ``ready`` and ``end`` are what PID 1 does about itself."""

    def __init__(
        self,
        boot: Boot,
        loop: Loop,
        registry: Registry,
        preload: Preload,
        ready: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        self._boot = boot
        self._loop = loop
        self._registry = registry
        self._preload = preload
        self._ready = ready
        self._end = end
        self._supervisor = Supervisor(loop, registry, preload, boot.listeners)

    def table(self) -> dict[str, Verb]:
        """Return the verbs by their names in the protocol."""
        return {
            "hosts": self.hosts,
            "run": self.run,
            "component": self.component,
            "component-signal": self.component_signal,
            "component-stop": self.component_stop,
            "component-restart": self.component_restart,
            "preload": self.preload,
            "ready": self.ready,
            "shutdown": self.shutdown,
        }

    def hosts(self, request: Request) -> Message | None:
        """Make hosts, all at the same time; answer when the last is there."""
        specs = [parse(HostSpec, one) for one in request.message["specs"]]
        for spec in specs:
            self._registry.vacant(host_id(spec.name), f"host {spec.name}")
        left = {spec.name for spec in specs}
        made: list[Entry] = []
        failures: list[Report] = []

        def reported(name: str, report: Report, entry: Entry) -> None:
            left.discard(name)
            report = report or _name_netns(name, entry.process.pid)
            if "error" in report:
                failures.append(report)
                self._registry.remove(entry)
            else:
                made.append(entry)
                self._registry.confirm(entry)
            if not left:
                done = [plain(one.process) for one in made]
                request.reply(failures[0] if failures else {"processes": done})

        for spec in specs:
            self._host(spec, partial(reported, spec.name))
        return None if specs else {"processes": []}

    def _host(self, spec: HostSpec, on_report: Callable[[Report, Entry], None]) -> None:
        lock = self._boot.lock
        keep = (*places.own_code(), *self._boot.keep)
        task = partial(hosts.become_host, spec, keep, lock)
        inherited = () if lock is None else (lock,)
        forked = start(self._loop, task, inherited, lambda report: on_report(report, entry))
        process = Process(host_id(spec.name), "host", spec.name, forked.pid, "")
        entry = self._registry.add(process, spec, forked.pidfd)

    def run(self, request: Request) -> None:
        """Call a function in a fork; answer with what it returns."""
        name, host = str(request.message["entry"]), request.message.get("host", "")
        target = self._registry.running(host_id(host), f"host {host}").pidfd if host else None
        self._preload.need(name.partition(":")[0])
        task = partial(become.once, name, request.message.get("config"), target)

        def reported(report: Report) -> None:
            os.close(forked.pidfd)
            silent = {"error": {"kind": "LabnetError", "message": f"{name} ended without a result"}}
            request.reply(report or silent)

        forked = start(self._loop, task, () if target is None else (target,), reported)

    def component(self, request: Request) -> None:
        """Start a supervised component."""
        spec = parse(ComponentSpec, request.message["spec"])
        if bool(spec.entry) == bool(spec.argv):
            raise LabnetError(f"component {spec.name} wants either an entry or a command")
        self._supervisor.add(spec, partial(_component_started, request))

    def component_signal(self, request: Request) -> Message:
        """Send a signal to a component."""
        self._supervisor.signal(request.message["name"], int(request.message["signal"]))
        return {}

    def component_stop(self, request: Request) -> None:
        """Stop a component; answer when it is gone."""
        self._supervisor.stop(request.message["name"], lambda: request.reply({}))

    def component_restart(self, request: Request) -> None:
        """Restart a component, or start one that was stopped; answer when it runs."""
        self._supervisor.restart(request.message["name"], partial(_component_started, request))

    def preload(self, request: Request) -> Message:
        """Import now what is still to be imported."""
        self._preload.finish()
        return {"missing": self._preload.missing}

    def ready(self, request: Request) -> Message:
        """Outlive the command line from now on."""
        self._ready()
        return {}

    def shutdown(self, request: Request) -> None:
        """End the lab."""
        request.reply({})
        self._end()


def _component_started(request: Request, report: Report, pid: int) -> None:
    request.reply(report or {"pid": pid})


def _name_netns(name: str, pid: int) -> Report:
    """Show a host's network namespace at /run/netns, for ``ip netns`` and the underlay."""
    path = str(places.NETNS / name)
    try:
        mounts.mount_point(path, directory=False)
        mounts.bind(f"/proc/{pid}/ns/net", path)
    except OSError as error:
        return error_message(error)
    return {}
