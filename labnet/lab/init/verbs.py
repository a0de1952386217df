"""The verbs: each takes a request apart, has it done, and words the answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial

from labnet.errors import LabnetError, NotFound
from labnet.lab.init import become, hosts, places
from labnet.lab.init.boot import Boot
from labnet.lab.init.dialling import Dial
from labnet.lab.init.forks import Report, start
from labnet.lab.init.loop import Loop
from labnet.lab.init.pods import Pods
from labnet.lab.init.preload import Preload
from labnet.lab.init.registry import Entry, Registry
from labnet.lab.init.server import Request, Verb
from labnet.lab.init.supervisor import Supervisor, host_id
from labnet.linux import mounts
from labnet.sandbox.protocol import Message, parse, plain
from labnet.sandbox.spec import ComponentSpec, ContainerSpec, ExecSpec, Process, SandboxSpec
from labnet.sandbox.zygote import HostSpec, Stdio

CONTROL_ONLY = frozenset(
    ("hosts", "run", "component", "component-signal", "component-stop", "component-restart",
     "preload", "ready", "shutdown")
)  # fmt: skip


class Verbs:
    """Everything PID 1 can be asked."""

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
        self._pods = Pods(loop, registry, preload)
        self._supervisor = Supervisor(loop, registry, preload, boot.listeners)

    def table(self) -> dict[str, Verb]:
        """Return every verb by its name in the protocol."""
        return {
            "sandbox": self.sandbox,
            "container": self.container,
            "exec": self.exec,
            "wait": self.wait,
            "signal": self.signal,
            "list": self.list,
            "fds": self.fds,
            "forget": self.forget,
            "watch": self.watch,
            "dial": self.dial,
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

    # -- pods ----------------------------------------------------------------------------

    def sandbox(self, request: Request) -> None:
        """Start a pause process; answer with pidfd and netns."""
        entry, netns = self._pods.sandbox(parse(SandboxSpec, request.message["spec"]))
        request.reply({"pid": entry.process.pid}, (entry.pidfd, netns))
        os.close(netns)

    def container(self, request: Request) -> None:
        """Start an app process; answer when it runs."""
        spec = parse(ContainerSpec, request.message["spec"])
        stdio = _stdio(request)
        # Duplicates: the request's own are closed with it, also if this fails.
        kept = [os.dup(descriptor) for descriptor in request.fds[3:]]
        try:
            self._pods.container(spec, stdio, kept, partial(_started, request))
        except BaseException:
            for descriptor in kept:
                os.close(descriptor)
            raise

    def exec(self, request: Request) -> None:
        """Start a further process; answer when it runs."""
        spec = parse(ExecSpec, request.message["spec"])
        if bool(spec.host) == bool(spec.container) or not spec.argv:
            raise LabnetError("exec wants a command, and either a container or a host")
        self._pods.exec(spec, _stdio(request), partial(_started, request))

    def wait(self, request: Request) -> Message | None:
        """Answer when the process has ended."""
        entry = self._registry.get(request.message["id"])

        def ended(process: Process) -> None:
            request.reply({"process": plain(process)})
            if process.kind == "exec":
                self._registry.remove(entry)

        if entry.process.exit is None:
            entry.on_end.append(ended)
        else:
            ended(entry.process)
        return None

    def signal(self, request: Request) -> Message:
        """Send a signal, unless it has ended."""
        entry = self._registry.get(request.message["id"])
        if entry.process.exit is None:
            _send_signal(entry, int(request.message["signal"]))
        return {}

    def list(self, request: Request) -> Message:
        """Answer with all processes of a node, or of the lab."""
        node = request.message.get("node", "")
        found = [one.process for one in self._registry if node in ("", one.process.node)]
        return {"processes": [plain(process) for process in found]}

    def fds(self, request: Request) -> None:
        """Answer with a container's kept descriptors."""
        request.reply({}, self._registry.get(request.message["id"]).kept)

    def forget(self, request: Request) -> Message | None:
        """Drop an entry; one that still runs is killed first and dropped when it is gone."""
        entry = self._registry.find(request.message["id"])
        if entry is None:
            return {}
        if entry.process.kind in ("host", "component"):
            raise LabnetError(f"{entry.process.id} is not a pod's, and stays")
        if entry.process.exit is not None:
            self._registry.remove(entry)
            return {}

        def gone(process: Process) -> None:
            self._registry.remove(entry)
            request.reply({})

        entry.on_end.append(gone)
        _send_signal(entry, signal.SIGKILL)
        return None

    def watch(self, request: Request) -> Message:
        """Answer at once, then with every process that ends, until the client goes."""
        connection, key = request.connection, id(request.connection)

        def ended(process: Process) -> None:
            if not connection.send({"exit": plain(process)}):
                self._registry.unwatch(key)
                connection.shut()  # it cannot know what it missed: it must list again

        self._registry.watch(key, request.message.get("node", ""), ended)
        connection.on_close.append(partial(self._registry.unwatch, key))
        return {}

    def dial(self, request: Request) -> None:
        """Answer with a connected socket."""
        host, sandbox = request.message.get("host", ""), request.message.get("sandbox", "")
        if sandbox:
            where = self._registry.running(sandbox, f"sandbox {sandbox}")
        else:
            where = self._registry.running(host_id(host), f"host {host}")
        Dial(self._loop, request, float(request.message.get("limit", 5.0))).begin(where.pidfd)

    # -- the lab -------------------------------------------------------------------------

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
            if "error" in report:
                failures.append(report)
                self._registry.remove(entry)
            else:
                made.append(entry)
                _name_netns(name, entry.process.pid)
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


def _stdio(request: Request) -> Stdio:
    if len(request.fds) < 3:
        raise LabnetError("stdin, stdout and stderr have to come with the request")
    return (request.fds[0], request.fds[1], request.fds[2])


def _started(request: Request, report: Report, entry: Entry) -> None:
    if "error" in report:
        request.reply(report)
    else:
        identity = {"id": entry.process.id, "pid": entry.process.pid}
        request.reply(identity, (entry.pidfd,))


def _component_started(request: Request, report: Report, pid: int) -> None:
    request.reply(report or {"pid": pid})


def _send_signal(entry: Entry, number: int) -> None:
    try:
        signal.pidfd_send_signal(entry.pidfd, number)
    except ProcessLookupError:  # it has ended, and the news is on its way
        return
    except ValueError as error:
        raise NotFound(f"there is no signal {number}") from error


def _name_netns(name: str, pid: int) -> None:
    """Show a host's network namespace at /run/netns, for ``ip netns`` and the underlay."""
    path = str(places.NETNS / name)
    mounts.mount_point(path, directory=False)
    mounts.bind(f"/proc/{pid}/ns/net", path)
