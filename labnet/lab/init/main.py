"""PID 1 of a lab: zygote, reaper and supervisor, and nothing else.

It has the components' modules loaded, one thread, no connection to anything and no
secret. On request it forks: hosts and components (:mod:`.lab_verbs`), pods' processes
(:mod:`.pod_verbs`). It reaps whatever ends below it, keeps listening sockets across the
restarts of those who serve them, and holds the lab's lock by being alive. When it ends,
by ``shutdown``, by a signal or by accident, the kernel ends every process of the lab and
takes its namespaces, mounts and links away: that is the whole of the clean-up.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import traceback
from contextlib import suppress
from typing import NoReturn

from labnet.clock import SystemClock
from labnet.lab.init import hosts, places
from labnet.lab.init.boot import Boot
from labnet.lab.init.lab_verbs import LabVerbs
from labnet.lab.init.loop import Loop
from labnet.lab.init.pod_verbs import PodVerbs
from labnet.lab.init.preload import Preload
from labnet.lab.init.registry import Registry
from labnet.lab.init.say import say
from labnet.lab.init.server import Server
from labnet.linux import mounts, seqpacket
from labnet.linux.namespaces import set_hostname
from labnet.linux.process import HANDLED, set_name
from labnet.linux.userns import one_uid
from labnet.sandbox import protocol


def run(boot: Boot, birth: socket.socket) -> NoReturn:
    """Be PID 1 of ``boot``'s lab; say so on ``birth`` once the control socket answers.

    To be called in the first process of new pid, mount, net, uts and ipc namespaces.
    """
    _surroundings(boot)
    loop = Loop(SystemClock())
    registry = Registry(loop.clock, places.STATE / "exits")
    _Signals(loop, registry)
    preload = Preload(loop, boot.preload)
    alive = _Alive(loop, boot.alive)
    pods = PodVerbs(loop, registry, preload)
    lab = LabVerbs(boot, loop, registry, preload, ready=alive.ready, end=_end)
    server = Server(loop, everywhere=pods.table(), control=lab.table())
    server.listen(places.STATE / "control.sock", control=True)
    server.listen(places.STATE / "zygote.sock", control=False)
    seqpacket.send(birth, protocol.dump({}))
    birth.close()
    while True:
        try:
            loop.turn()
        except Exception:  # noqa: BLE001  # the end of PID 1 would be the end of the lab
            say(traceback.format_exc())


def _end() -> NoReturn:
    """End; the kernel kills what is left in this pid namespace."""
    os._exit(0)


def _surroundings(boot: Boot) -> None:
    """Make the sandbox's own view: processes, /run, interfaces; touch nothing outside."""
    set_name("labnet-init")
    set_hostname(boot.name)
    os.chdir("/")
    _raise_descriptor_limit()
    mounts.propagation("/", mounts.PRIVATE | mounts.REC)
    state = os.open(boot.state, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mounts.mount("proc", "/proc", "proc", mounts.NOSUID | mounts.NODEV | mounts.NOEXEC)
    shown = places.exposed((*places.own_code(), *boot.keep), ("/run",))
    places.lay_private(("/run",), shown)
    places.STATE.mkdir()
    mounts.bind(f"/proc/self/fd/{state}", str(places.STATE))
    os.close(state)
    for name in ("logs", "exits"):
        (places.STATE / name).mkdir(mode=0o700, exist_ok=True)
    _shared_netns()
    hosts.show_network_in_sysfs()
    for path, value in hosts.network_settings(node=False):
        hosts.write_setting(path, value)
    hosts.loopback_up()
    one_uid()  # known from now on, in every fork


def _shared_netns() -> None:
    """A directory of named network namespaces that hosts see growing."""
    places.NETNS.mkdir()
    mounts.mount("tmpfs", str(places.NETNS), "tmpfs", mounts.NOSUID, "mode=755")
    mounts.propagation(str(places.NETNS), mounts.SHARED)


def _raise_descriptor_limit() -> None:
    """A pidfd and a few pipes for every container of the lab."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class _Alive:
    """Until the lab is ready, it lives only as long as the command line that starts it."""

    def __init__(self, loop: Loop, descriptor: int | None) -> None:
        self._loop = loop
        self._descriptor = descriptor
        if descriptor is not None:
            loop.on_readable(descriptor, self._closed)

    def _closed(self) -> None:
        say("whoever started this lab is gone before it was ready: ending")
        _end()

    def ready(self) -> None:
        """Let go of the pipe."""
        if self._descriptor is not None:
            self._loop.forget(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


class _Signals:
    """SIGCHLD reaps, SIGTERM and SIGINT end the lab; both through the loop."""

    def __init__(self, loop: Loop, registry: Registry) -> None:
        self._registry = registry
        self._reader, writer = socket.socketpair()
        self._reader.setblocking(False)
        writer.setblocking(False)
        self._writer = writer
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        for number in HANDLED:
            signal.signal(number, _noted)
        loop.on_readable(self._reader.fileno(), self._arrived)

    def _arrived(self) -> None:
        numbers = self._reader.recv(4096)
        self._reap()
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            say("told to end by a signal")
            _end()

    def _reap(self) -> None:
        """Take note of every child that ended, ours or an orphan's."""
        with suppress(ChildProcessError):
            while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)) is not None:
                killed = found.si_code != os.CLD_EXITED
                code = 128 + found.si_status if killed else found.si_status
                self._registry.ended(found.si_pid, code, found.si_status if killed else 0)


def _noted(number: int, frame: object) -> None:
    """The loop hears of it through the wake-up descriptor."""
