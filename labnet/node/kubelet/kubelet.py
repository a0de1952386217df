"""The kubelet put together: its parts, its threads, its start and its end.

Threads: the watch on this node's pods, three pod workers, one each for probes, events,
the node's report, ended processes, logs, and the server's listener. All of them sleep
until something happens; the shortest regular wake-up is the lease, every ten seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from labnet.api.meta import Object
from labnet.client.api import Api
from labnet.client.events import Recorder
from labnet.client.informer import Informer
from labnet.client.kinds import PODS
from labnet.client.workqueue import WorkQueue
from labnet.clock import Clock
from labnet.node.kubelet import volumes
from labnet.node.kubelet.checks import Outcome
from labnet.node.kubelet.hooks import Actor
from labnet.node.kubelet.node import Host, Identity, NodeReporter
from labnet.node.kubelet.pacing import Paced
from labnet.node.kubelet.parts import Parts, reference
from labnet.node.kubelet.pods import Pods
from labnet.node.kubelet.prober import Prober, Target
from labnet.node.kubelet.probes import Track
from labnet.node.kubelet.server import Server, Serving
from labnet.node.kubelet.starter import Starter
from labnet.node.network import PodNetwork
from labnet.node.runtime import logs
from labnet.node.runtime.model import Runtime
from labnet.node.runtime.pump import LogPump
from labnet.sandbox.root import Machine

WORKERS = 3
PROBE_THREADS = 8


@dataclass(frozen=True, slots=True)
class Setting:
    """What a kubelet is built on."""

    api: Api
    runtime: Runtime
    network: PodNetwork
    pump: LogPump
    clock: Clock
    machine: Machine
    host: Host
    identity: Identity
    volume_root: Path = volumes.ROOT
    log_root: Path = logs.ROOT


class Kubelet:
    """One node's kubelet. ``start`` runs it in threads; without it tests drive the parts."""

    def __init__(self, setting: Setting, pool: Executor | None = None) -> None:
        self.setting = setting
        self._pool = pool or ThreadPoolExecutor(PROBE_THREADS, "kubelet")
        starter = Starter(
            setting.runtime, setting.network, setting.api, setting.machine, setting.volume_root
        )
        actor = Actor(setting.runtime, starter)
        self.recorder = Recorder(setting.api, "kubelet", setting.identity.name, setting.clock)
        self.events = Paced(self.recorder, setting.clock)
        self.prober = Prober(setting.clock, self._pool, actor.check, self._wake, self._probe_failed)
        parts = Parts(
            api=setting.api,
            runtime=setting.runtime,
            network=setting.network,
            starter=starter,
            prober=self.prober,
            recorder=self.events,
            clock=setting.clock,
            queue=WorkQueue(setting.clock),
            pool=self._pool,
            hook=actor.hook,
            volume_root=setting.volume_root,
            log_root=setting.log_root,
        )
        self.pods = Pods(parts)
        self.node = NodeReporter(
            setting.api,
            setting.identity,
            setting.host,
            setting.clock,
            setting.network.ready,
            self.pods.network_ready,
        )
        self._server: Server | None = None
        self._informer: Informer | None = None
        setting.runtime.on_exit(self.pods.exited)

    def start(self, serving: Serving) -> None:
        """Serve, register, and take over this node's pods."""
        setting = self.setting
        self._server = Server(serving, self.pods, setting.pump, setting.clock, setting.log_root)
        self._server.start()
        self.recorder.__enter__()
        self._thread("paced-events", self.events.run)
        self._thread("node", self.node.run)
        self._thread("probes", self.prober.run)
        mine = f"spec.nodeName={setting.identity.name}"
        self._informer = Informer(setting.api, PODS, self._changed, fields=mine)
        self._informer.start()
        self._thread("adopt", self._adopt)
        for number in range(WORKERS):
            self._thread(f"worker-{number}", self.pods.work)

    def stop(self) -> None:
        """End the threads; the pods go on."""
        self.pods.parts.queue.shut_down()
        self.prober.close()
        self.events.close()
        self.recorder.__exit__()
        self.node.close()
        if self._server is not None:
            self._server.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _thread(self, name: str, run: Callable[[], None]) -> None:
        Thread(target=run, name=name, daemon=True).start()

    def _adopt(self) -> None:
        """Once the first list is in, look at what runs without a pod of the API server's."""
        if self._informer is not None and self._informer.wait_synced():
            self.pods.listed()

    def _changed(self, old: Object | None, new: Object | None) -> None:
        metadata = (new or old or {})["metadata"]
        self.pods.changed(f"{metadata['namespace']}/{metadata['name']}", new)

    def _wake(self, uid: str) -> None:
        self.pods.wake(uid)

    def _probe_failed(self, target: Target, track: Track, outcome: Outcome) -> None:
        message = f"{track.kind} probe failed: {outcome.output}"
        self.events.say(reference(target.pod), "Warning", "Unhealthy", message)
