"""Asking the lab's PID 1 for processes: typed calls over a transport that is handed in.

The kubelet has threads and must not fork; PID 1 has none and forks for everybody. This
is its client: each method sends one request and returns what came back, or raises the
error that arose inside. The transport (``labnet.linux.seqpacket.Client``) is safe to
share between threads, so a :class:`Zygote` is too.

Descriptors that a method returns (pidfds, network namespaces, sockets) belong to the
caller, who closes them. Descriptors that are handed in stay the caller's: PID 1 gets
duplicates. A pidfd becomes readable when its process ends; the exit code comes from
:meth:`Processes.wait` or :meth:`Processes.watch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from labnet.sandbox import protocol
from labnet.sandbox.protocol import Message
from labnet.sandbox.spec import ComponentSpec, ContainerSpec, ExecSpec, Process, SandboxSpec

Stdio = tuple[int, int, int]
"""stdin, stdout, stderr: open descriptors."""


class Transport(Protocol):
    """One request, one reply, descriptors with both; raises ``Unavailable``."""

    def call(
        self, payload: bytes, fds: Sequence[int] = (), timeout: float | None = None
    ) -> tuple[bytes, tuple[int, ...]]:
        """Send ``payload`` with ``fds``; return the reply and the descriptors with it."""

    def stream(self, payload: bytes) -> tuple[bytes, Iterator[bytes]]:
        """Send ``payload``; return the reply, and an iterator over what follows it."""

    def close(self) -> None:
        """Close all connections; calls and streams under way end with ``Unavailable``."""


@dataclass(frozen=True, slots=True)
class Started:
    """A process that runs: its id at the zygote, its pid inside the lab, its pidfd."""

    id: str
    pid: int
    pidfd: int


@dataclass(frozen=True, slots=True)
class StartedSandbox:
    """A pause process and the network namespace that it holds.

    ``netns`` is the node's own with ``host_network``.
    """

    id: str
    pid: int
    pidfd: int
    netns: int


@dataclass(frozen=True, slots=True)
class HostSpec:
    """A host to be made: a node or a client, its namespaces and files.

    ``node`` forwards packets and lets bridged ones pass netfilter; a client does neither.
    ``etc_hosts`` is the whole content of its /etc/hosts. ``keep`` are paths of the
    machine that must stay visible although they lie below a directory that is private
    to a host (/run, /tmp, /var/lib, /var/log): an etcd that lives there, for example.
    """

    name: str
    node: bool = True
    etc_hosts: str = ""
    keep: tuple[str, ...] = ()


class Processes(Protocol):
    """What the kubelet asks for; :class:`Zygote` and ``FakeZygote`` give it."""

    def sandbox(self, spec: SandboxSpec) -> StartedSandbox:
        """Start a pause process. Raises ``AlreadyExists``, ``NotFound`` (the node)."""

    def container(self, spec: ContainerSpec, stdio: Stdio, keep: Sequence[int] = ()) -> Started:
        """Start an app process; ``keep`` are stored for :meth:`fds`.

        Returns when the program runs. Raises ``NotFound`` (sandbox, or executable not
        found), ``AlreadyExists``, ``Unsupported`` (a user that is not mapped), else
        ``LabnetError`` with the step that failed.
        """

    def exec(self, spec: ExecSpec, stdio: Stdio) -> Started:
        """Start a further process in a container or on a host.

        Raises ``NotFound`` for a container that does not run, or a program that is not
        there; its message ends as runc's does: ``executable file not found in $PATH``.
        """

    def wait(self, id: str, timeout: float | None = None) -> Process:
        """Return the process once it has ended (``exit`` is set); at once if it has.

        An exec'ed process is forgotten with that. Raises ``NotFound``; ``Unavailable``
        after ``timeout`` seconds, with the process still running.
        """

    def signal(self, id: str, signal: int) -> None:
        """Send a signal; one that has ended already is no error. Raises ``NotFound``.

        SIGKILL to a container ends every process in it.
        """

    def list(self, node: str = "") -> tuple[Process, ...]:
        """Return all processes of ``node`` (or of the lab), ended ones until forgotten."""

    def fds(self, id: str) -> tuple[int, ...]:
        """Return duplicates of what ``container`` was told to keep. Raises ``NotFound``."""

    def forget(self, id: str) -> None:
        """Drop an ended process and its stored descriptors; unknown ones are no error.

        A sandbox or container that still runs is killed first.
        """

    def watch(self, node: str) -> Iterator[Process]:
        """Yield each sandbox, container and component of ``node`` when it ends.

        The subscription holds when this returns, so a ``list`` after it misses nothing.
        Iterating ends with ``Unavailable`` when the lab dies or the transport is closed.
        """

    def dial(
        self, address: str, port: int, *, host: str = "", sandbox: str = "", timeout: float = 5.0
    ) -> int:
        """Return a connected TCP socket's descriptor, made in a host's or pod's netns.

        Raises ``NotFound`` (no such host or sandbox), ``Unavailable`` (refused, no route,
        timeout).
        """


class Zygote:
    """The client of PID 1; the methods from ``hosts`` on need the control socket."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def close(self) -> None:
        """Close the transport; whoever waits in a call or a watch gets ``Unavailable``."""
        self._transport.close()

    # -- pods: Processes -----------------------------------------------------------------

    def sandbox(self, spec: SandboxSpec) -> StartedSandbox:
        """Start a pause process, see :class:`Processes`."""
        reply, (pidfd, netns) = self._call("sandbox", spec=spec)
        return StartedSandbox(spec.id, reply["pid"], pidfd, netns)

    def container(self, spec: ContainerSpec, stdio: Stdio, keep: Sequence[int] = ()) -> Started:
        """Start an app process, see :class:`Processes`."""
        reply, (pidfd,) = self._call("container", fds=(*stdio, *keep), spec=spec)
        return Started(spec.id, reply["pid"], pidfd)

    def exec(self, spec: ExecSpec, stdio: Stdio) -> Started:
        """Start a further process, see :class:`Processes`."""
        reply, (pidfd,) = self._call("exec", fds=stdio, spec=spec)
        return Started(reply["id"], reply["pid"], pidfd)

    def wait(self, id: str, timeout: float | None = None) -> Process:
        """Return the process once it has ended, see :class:`Processes`."""
        reply, _ = self._call("wait", timeout=timeout, id=id)
        return protocol.parse(Process, reply["process"])

    def signal(self, id: str, signal: int) -> None:
        """Send a signal, see :class:`Processes`."""
        self._call("signal", id=id, signal=int(signal))

    def list(self, node: str = "") -> tuple[Process, ...]:
        """Return all processes of a node or of the lab, see :class:`Processes`."""
        reply, _ = self._call("list", node=node)
        return tuple(protocol.parse(Process, one) for one in reply["processes"])

    def fds(self, id: str) -> tuple[int, ...]:
        """Return duplicates of the kept descriptors, see :class:`Processes`."""
        return self._call("fds", id=id)[1]

    def forget(self, id: str) -> None:
        """Drop an ended process, see :class:`Processes`."""
        self._call("forget", id=id)

    def watch(self, node: str) -> Iterator[Process]:
        """Yield each process of ``node`` when it ends, see :class:`Processes`."""
        reply, following = self._transport.stream(protocol.request("watch", node=node))
        protocol.result(reply)
        return (
            protocol.parse(Process, protocol.result(datagram)["exit"]) for datagram in following
        )

    def dial(
        self, address: str, port: int, *, host: str = "", sandbox: str = "", timeout: float = 5.0
    ) -> int:
        """Return a connected socket from inside the lab, see :class:`Processes`."""
        _, (descriptor,) = self._call(
            "dial", address=address, port=port, host=host, sandbox=sandbox, limit=timeout
        )
        return descriptor

    # -- the lab: control socket only ----------------------------------------------------

    def hosts(self, specs: Sequence[HostSpec]) -> tuple[Process, ...]:
        """Make hosts: namespaces, files, sysctls; no links yet. Raises ``Unsupported``."""
        reply, _ = self._call("hosts", specs=list(specs))
        return tuple(protocol.parse(Process, one) for one in reply["processes"])

    def run(self, entry: str, config: Mapping[str, object], host: str = "") -> Any:
        """Call ``module:function(config)`` once in a fork; return its JSON result.

        It runs on ``host``, or in PID 1's own namespaces, where the underlay bridge is
        and where /run/netns has every host. Raises what the function raised.
        """
        return self._call("run", entry=entry, config=dict(config), host=host)[0]["result"]

    def component(self, spec: ComponentSpec) -> int:
        """Start a supervised component; return its pid. Raises ``AlreadyExists``."""
        return int(self._call("component", spec=spec)[0]["pid"])

    def component_signal(self, name: str, signal: int) -> None:
        """Send a signal to a component; if that ends it, it is restarted."""
        self._call("component-signal", name=name, signal=int(signal))

    def component_stop(self, name: str) -> None:
        """End a component and leave it ended; returns when it is gone."""
        self._call("component-stop", name=name)

    def component_restart(self, name: str) -> int:
        """End a component if it runs, and start it at once; return the new pid."""
        return int(self._call("component-restart", name=name)[0]["pid"])

    def preload(self) -> tuple[str, ...]:
        """Import what ``Boot.preload`` names, now; return what could not be imported.

        PID 1 does so by itself when it has nothing else to do, and before it starts a
        component at the latest up to that component's module. Asking for it after the
        components were started costs nothing and tells what is missing.
        """
        return tuple(self._call("preload")[0]["missing"])

    def ready(self) -> None:
        """Say that the lab is up: from now on it outlives the ``alive`` pipe."""
        self._call("ready")

    def shutdown(self) -> None:
        """End the lab. Returns when PID 1 has taken note; its pidfd tells when it is gone."""
        self._call("shutdown")

    def _call(
        self,
        verb: str,
        *,
        fds: Sequence[int] = (),
        timeout: float | None = None,
        **arguments: object,
    ) -> tuple[Message, tuple[int, ...]]:
        payload = protocol.request(verb, **arguments)
        reply, received = self._transport.call(payload, fds, timeout)
        return protocol.result(reply), received
