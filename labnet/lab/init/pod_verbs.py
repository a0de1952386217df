"""The verbs of both doors: sandboxes, containers, execs, and looking at processes.

Each takes a request apart, has it done, and words the answer, at once or later.
"""

from __future__ import annotations

import os
import signal
from functools import partial

from labnet.errors import LabnetError, NotFound
from labnet.lab.init.dialling import Dial
from labnet.lab.init.forks import Report
from labnet.lab.init.loop import Loop
from labnet.lab.init.pods import Pods
from labnet.lab.init.preload import Preload
from labnet.lab.init.registry import Entry, Registry
from labnet.lab.init.server import Request, Verb
from labnet.lab.init.supervisor import host_id
from labnet.sandbox.protocol import Message, parse, plain
from labnet.sandbox.spec import ContainerSpec, ExecSpec, Process, SandboxSpec
from labnet.sandbox.zygote import Stdio


class PodVerbs:
    """What a kubelet asks for, and the command line on a person's behalf."""

    def __init__(self, loop: Loop, registry: Registry, preload: Preload) -> None:
        self._loop = loop
        self._registry = registry
        self._pods = Pods(loop, registry, preload)

    def table(self) -> dict[str, Verb]:
        """Return the verbs by their names in the protocol."""
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
        }

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


def _send_signal(entry: Entry, number: int) -> None:
    try:
        signal.pidfd_send_signal(entry.pidfd, number)
    except ProcessLookupError:  # it has ended, and the news is on its way
        return
    except ValueError as error:
        raise NotFound(f"there is no signal {number}") from error
