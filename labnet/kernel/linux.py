"""The real kernel, reached over rtnetlink and /proc/sys.

A :class:`LinuxKernel` works in the network namespace the process is in: a component
joins its node's namespaces once, at its start, and stays. Nothing is opened before the
first call. Reading is scoped to the devices asked for, so a pass over a node with a
thousand pods costs what a pass over an empty one does.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from labnet.errors import LabnetError, OpFailed, Unsupported
from labnet.kernel import cable, decode, encode
from labnet.kernel.netlink import Message, Netlink, Refusal, Refused
from labnet.kernel.netns import inside, own_netns
from labnet.plan.explain import commands, shell
from labnet.plan.ops import AddLink, Attach, Op, Plan, SetSysctl
from labnet.plan.state import (
    Address,
    Forwarding,
    Link,
    Neighbour,
    NodeState,
    Route,
    Scope,
    Sysctl,
)

_SWAP = str.maketrans("./", "/.")
MODULES = {"net.bridge.": "br_netfilter"}  # settings that a module brings


class LinuxKernel:
    """One network namespace; ``name`` (the node's) begins every error message."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.RLock()
        self._opened: tuple[Netlink, int] | None = None

    def close(self) -> None:
        """Close the netlink socket; the namespace and what is in it stay."""
        with self._lock:
            if self._opened:
                self._opened[0].close()
                os.close(self._opened[1])
                self._opened = None

    def __enter__(self) -> LinuxKernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def observe(self, scope: Scope) -> NodeState:
        """Return what is there of what ``scope`` covers."""
        with self._lock:
            found = [x for x in map(self._link, sorted(scope.links)) if x]
            tunnels = [x for x in found if x[1].vxlan]
            return NodeState(
                links=frozenset(link for _, link in found),
                addresses=frozenset(self._addresses(found)),
                routes=frozenset(self._routes(scope.routes) if scope.routes else ()),
                neighbours=frozenset(self._neighbours(tunnels)),
                forwardings=frozenset(self._forwardings(tunnels)),
                sysctls=frozenset(_read_sysctls(scope.sysctls)),
            )

    def apply(self, op: Op) -> None:
        """Carry out ``op``. Raises ``OpFailed``."""
        self.apply_all((op,))

    def apply_all(self, plan: Plan) -> None:
        """Carry out ``plan``, sending as many messages at once as their order allows.

        A device made in this plan has no number until the kernel gave it one; what
        refers to it waits for the batch before it. Raises ``OpFailed`` for the first
        operation that was refused, after all have been tried.
        """
        batch = _Batch(self)
        with self._lock:
            for op in plan:
                batch.add(op)
            batch.flush()
        if batch.failures:
            raise batch.failures[0]

    def attach(self, op: Attach, netns: int) -> None:
        """Lay a cable to the namespace open as ``netns``. Raises ``OpFailed``."""
        with self._lock:
            here, home = self._open()
            try:
                bridge = self.index(op.cable.bridge)
                with inside(netns, home):
                    there = Netlink()
                with there:
                    cable.lay(op, netns, here, there, bridge, self.name)
            except Refused as e:
                raise cable.failure(op, 0, e.refusal, self.name) from e
            except OSError as e:  # the descriptor is no network namespace
                raise OpFailed(f"{self.name}: {commands(op)[2]}: {e}") from e

    def send(self, messages: list[Message]) -> dict[int, Refusal]:
        """Send one batch; return what was refused, by position."""
        return self._open()[0].batch(messages)

    def index(self, name: str) -> int:
        """Return the number of the device ``name``. Raises ``Refused``."""
        return decode.link_index(self._one(decode.link_query(name)))

    def _name(self, index: int) -> str:
        return decode.link_name(self._one(decode.link_by_index_query(index)))

    def _one(self, query: Message) -> bytes:
        body = self._open()[0].get(query)
        if body is None:
            raise Refused(Refusal(errno.ENODEV))
        return body

    def _open(self) -> tuple[Netlink, int]:
        if self._opened is None:
            self._opened = (Netlink(), own_netns())
        return self._opened

    def _link(self, name: str) -> tuple[int, Link] | None:
        try:
            body = self._one(decode.link_query(name))
        except Refused as e:
            if e.refusal.errno == errno.ENODEV:
                return None
            raise OpFailed(f"{self.name}: ip link show dev {name}: {e}") from e
        return decode.link_index(body), decode.link(body, self._name)

    def _addresses(self, links: Iterable[tuple[int, Link]]) -> Iterator[Address]:
        for index, link in links:
            for body in self._open()[0].dump(decode.addresses_query(index)):
                if found := decode.address(body, link.name):
                    yield found

    def _routes(self, devices: frozenset[str]) -> Iterator[Route]:
        names: dict[int, str] = {}
        for body in self._open()[0].dump(decode.routes_query()):
            route = decode.route(body, lambda i: names.get(i) or names.setdefault(i, self._name(i)))
            if route and route.dev in devices:
                yield route

    def _neighbours(self, links: Iterable[tuple[int, Link]]) -> Iterator[Neighbour]:
        for index, link in links:
            for body in self._open()[0].dump(decode.neighbours_query(index)):
                if found := decode.neighbour(body, link.name):
                    yield found

    def _forwardings(self, links: Iterable[tuple[int, Link]]) -> Iterator[Forwarding]:
        for index, link in links:
            for body in self._open()[0].dump(decode.forwardings_query(index)):
                if found := decode.forwarding(body, link.name):
                    yield found


class _Batch:
    """Messages that wait to be sent together, and whose operation each one is."""

    def __init__(self, kernel: LinuxKernel) -> None:
        self.failures: list[LabnetError] = []
        self._kernel = kernel
        self._messages: list[tuple[Op, Message]] = []
        self._new: set[str] = set()  # devices made by a message that still waits

    def add(self, op: Op) -> None:
        if isinstance(op, SetSysctl):
            self.flush()
            self._sysctl(op)
            return
        try:
            encoded = encode.messages(op, self._index)  # may flush
        except Refused as e:
            self._failed(op, e.refusal)
            return
        self._messages.extend((op, message) for message in encoded)
        if isinstance(op, AddLink):
            self._new.add(op.link.name)

    def flush(self) -> None:
        waiting, self._messages = self._messages, []
        self._new.clear()
        if waiting:
            refused = self._kernel.send([message for _, message in waiting])
            for position, refusal in sorted(refused.items()):
                self._failed(waiting[position][0], refusal)

    def _index(self, name: str) -> int:
        if name in self._new:
            self.flush()
        return self._kernel.index(name)

    def _failed(self, op: Op, refusal: Refusal) -> None:
        self.failures.append(OpFailed(f"{self._kernel.name}: {commands(op)[0]}: {refusal}"))

    def _sysctl(self, op: SetSysctl) -> None:
        try:
            sysctl_path(op.sysctl.name).write_text(op.sysctl.value)
        except OSError as e:
            self.failures.append(_sysctl_failure(self._kernel.name, op, e))


def sysctl_path(name: str) -> Path:
    """Return the file of a setting; in a device's name write / for its dots."""
    return Path("/proc/sys", name.translate(_SWAP))


def _read_sysctls(names: Iterable[str]) -> Iterator[Sysctl]:
    for name in names:
        try:
            yield Sysctl(name, "\t".join(sysctl_path(name).read_text().split()))
        except FileNotFoundError:
            continue


def _sysctl_failure(node: str, op: SetSysctl, cause: OSError) -> LabnetError:
    line = f"{node}: {shell(op)}: {os.strerror(cause.errno or 0)}"
    if isinstance(cause, FileNotFoundError):
        for prefix, module in MODULES.items():
            if op.sysctl.name.startswith(prefix):
                return Unsupported(line, hint=f"load the kernel module: sudo modprobe {module}")
    return OpFailed(line)
