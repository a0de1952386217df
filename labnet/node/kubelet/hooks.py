"""Carrying out what probes and lifecycle hooks ask for, in a container or over the network.

The same four actions serve both: ``httpGet`` and ``tcpSocket`` go out from the node's own
network namespace (:mod:`~labnet.node.kubelet.checks`), ``exec`` runs a process in the
container, ``sleep`` only lets time pass. A probe has ``timeoutSeconds``, a hook thirty
seconds; what does not end in time is killed and has failed. The pod's faults never raise:
they are the outcome.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from threading import Event

from labnet.errors import LabnetError
from labnet.node.kubelet import checks
from labnet.node.kubelet.checks import Outcome
from labnet.node.kubelet.prober import Target
from labnet.node.kubelet.starter import Starter
from labnet.node.runtime.model import Runtime
from labnet.sandbox.pod import Action, Probe

HOOK_SECONDS = 30.0
OUTPUT_MAX = 10 * 1024


@dataclass(frozen=True, slots=True)
class Actor:
    """Runs actions against running containers."""

    runtime: Runtime
    starter: Starter

    def check(self, target: Target, probe: Probe) -> Outcome:
        """Return the outcome of one probe; never raises for the pod's faults."""
        return self._act(target, probe.action, probe.timeout)

    def hook(self, target: Target, action: Action) -> str:
        """Carry a lifecycle hook out; return what went wrong, "" if nothing did."""
        outcome = self._act(target, action, HOOK_SECONDS)
        return "" if outcome.ok else outcome.output or "the hook failed"

    def _act(self, target: Target, action: Action, timeout: float) -> Outcome:
        if action.kind in ("httpGet", "tcpSocket") and not action.port:
            return Outcome(False, "the port is not among the container's ports")
        match action.kind:
            case "httpGet":
                return checks.http_get(action, str(target.address), timeout)
            case "tcpSocket":
                return checks.tcp_connect(action, str(target.address), timeout)
            case "exec":
                return self._exec(target, action, timeout)
            case "sleep":
                return self._sleep(action)
            case kind:
                return Outcome(False, f"{kind} is not supported: exec, httpGet, tcpSocket are")

    def _sleep(self, action: Action) -> Outcome:
        Event().wait(action.seconds)
        return Outcome(True)

    def _exec(self, target: Target, action: Action, timeout: float) -> Outcome:
        read, write = os.pipe2(os.O_CLOEXEC)
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            spec = self.starter.exec_spec(
                target.pod,
                target.container,
                target.id,
                target.address,
                action.argv,
            )
            process = self.runtime.exec(spec, (null, write, write))
        except LabnetError as error:
            os.close(read)
            return Outcome(False, error.message)
        finally:
            os.close(write)
            os.close(null)
        try:
            exit_ = process.wait(timeout)
            if exit_ is None:
                process.kill()
                process.wait(timeout)
                return Outcome(False, f"command timed out after {timeout:g}s")
            return Outcome(exit_.code == 0, _output(read))
        finally:
            process.close()
            os.close(read)


def _output(fd: int) -> str:
    """Return what is in the pipe by now; a background process may keep it open."""
    os.set_blocking(fd, False)
    try:
        return os.read(fd, OUTPUT_MAX).decode(errors="replace")
    except BlockingIOError:
        return ""
