"""The node itself: registered once, reported when it changes, alive every ten seconds.

A node's heartbeat is its Lease in kube-node-lease, a small object renewed four times
per ``leaseDurationSeconds``; when that stops, the node controller calls the node
NotReady and its pods leave the endpoints. The Node object, which is large, is written
only when something changed, and every five minutes. A node is Ready once its pods can
get addresses, so not before flanneld has written the subnet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from threading import Event
from typing import Any

from labnet.client.api import Api
from labnet.client.kinds import LEASES, NODE_LEASES, NODES
from labnet.clock import Clock, rfc3339, rfc3339_micro
from labnet.errors import AlreadyExists, LabnetError, NotFound

log = logging.getLogger(__name__)

KUBELET_VERSION = "v1.37.0+labnet"
REPORT_SECONDS = 300.0
NETWORK_LOOK, RETRY_FIRST, RETRY_MAX = 0.05, 0.1, 2.0
MAX_PODS = 110


@dataclass(frozen=True, slots=True)
class Host:
    """What the machine tells of itself."""

    cpus: int
    memory_kib: int
    kernel: str  # uname -r
    os_image: str  # PRETTY_NAME of /etc/os-release
    architecture: str  # in Go's words: amd64, arm64
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """What the node is called and what it wants to be registered with."""

    name: str
    address: IPv4Address
    port: int
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    lease_seconds: float
    runtime: str  # "process://1.0"


def node_object(identity: Identity, host: Host) -> dict[str, Any]:
    """Return the Node to register, without status."""
    known = {
        "kubernetes.io/hostname": identity.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": host.architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": host.architecture,
    }
    spec = {"taints": [dict(taint) for taint in identity.taints]} if identity.taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": identity.name, "labels": known | dict(identity.labels)},
        "spec": spec,
    }


def node_status(
    identity: Identity, host: Host, network_ready: bool, before: Mapping[str, Any], now: str
) -> dict[str, Any]:
    """Return ``status``: addresses, capacity, conditions and nodeInfo."""
    resources = {
        "cpu": str(host.cpus),
        "memory": f"{host.memory_kib}Ki",
        "pods": str(MAX_PODS),
        "ephemeral-storage": f"{host.memory_kib}Ki",  # all of it is tmpfs
    }
    return {
        "addresses": [
            {"type": "InternalIP", "address": str(identity.address)},
            {"type": "Hostname", "address": identity.name},
        ],
        "capacity": resources,
        "allocatable": resources,
        "conditions": _conditions(network_ready, before, now),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": identity.port}},
        "nodeInfo": {
            "architecture": host.architecture,
            "bootID": host.boot_id,
            "containerRuntimeVersion": identity.runtime,
            "kernelVersion": host.kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": host.os_image,
            "systemUUID": "",
        },
    }


def _conditions(network_ready: bool, before: Mapping[str, Any], now: str) -> list[dict[str, Any]]:
    fine = {
        "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    }
    wanted = [(name, "False", reason, message) for name, (reason, message) in fine.items()]
    if network_ready:
        wanted.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    else:
        message = (
            "container runtime network not ready: NetworkReady=false "
            "reason:NetworkPluginNotReady message:flanneld has not written its subnet"
        )
        wanted.append(("Ready", "False", "KubeletNotReady", message))
    old = {c["type"]: c for c in before.get("conditions") or ()}
    conditions = []
    for name, status, reason, message in wanted:
        known = old.get(name, {})
        since = known.get("lastTransitionTime") if known.get("status") == status else None
        conditions.append(
            {
                "type": name,
                "status": status,
                "reason": reason,
                "message": message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": since or now,
            }
        )
    return conditions


def lease_object(identity: Identity, node: Mapping[str, Any], renewed: str) -> dict[str, Any]:
    """Return the node's Lease; it goes when the Node goes."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": identity.name}
    owner["uid"] = node["metadata"].get("uid", "")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": identity.name,
            "namespace": NODE_LEASES,
            "ownerReferences": [owner],
        },
        "spec": {
            "holderIdentity": identity.name,
            "leaseDurationSeconds": int(identity.lease_seconds),
            "renewTime": renewed,
        },
    }


def _ready(node: Mapping[str, Any]) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return next((str(c["status"]) for c in conditions if c["type"] == "Ready"), "")


class NodeReporter:
    """Keeps the Node and its Lease in step with the machine, from one thread."""

    def __init__(
        self,
        api: Api,
        identity: Identity,
        host: Host,
        clock: Clock,
        network_ready: Callable[[], bool],
        on_network_ready: Callable[[], None],
    ) -> None:
        self._api, self._identity, self._host, self._clock = api, identity, host, clock
        self._network_ready, self._on_network_ready = network_ready, on_network_ready
        self._node: Mapping[str, Any] | None = None
        self._network = False
        self._reported: tuple[bool, float] | None = None
        self._renewed: float | None = None
        self._retry, self._retry_at = RETRY_FIRST, 0.0
        self._closed = Event()

    def run(self) -> None:
        """Report until closed."""
        while not self._closed.wait(self.step()):
            pass

    def close(self) -> None:
        """Make :meth:`run` return."""
        self._closed.set()

    def step(self) -> float:
        """Do what is due; return the seconds until the next thing is."""
        if not self._network and self._network_ready():
            self._network = True
            self._on_network_ready()
        if self._clock.monotonic() >= self._retry_at:
            self._try()
        return self._pause()

    def _try(self) -> None:
        try:
            node = self._current() or self._register()
            self._report(node)
            self._renew(node)
        except LabnetError as error:
            log.warning("node %s: %s", self._identity.name, error.message)
            self._retry_at = self._clock.monotonic() + self._retry
            self._retry = min(2 * self._retry, RETRY_MAX)
            return
        self._retry = RETRY_FIRST

    def _current(self) -> Mapping[str, Any] | None:
        """Return the Node; read again when a renewal is due.

        While this node was cut off, the control plane wrote Ready Unknown over the report;
        a kubelet that only looked at itself would never say that it is back.
        """
        if self._node is None or not self._renewal_due():
            return self._node
        try:
            self._node = self._api.get(NODES, self._identity.name)
        except NotFound:
            self._node = None  # somebody deleted it: register again
            self._reported = None
            return None
        wanted = "True" if self._network else "False"
        if _ready(self._node) != wanted:
            self._reported = None
        return self._node

    def _register(self) -> Mapping[str, Any]:
        """Create the Node, or take over the one of an earlier kubelet."""
        wanted = node_object(self._identity, self._host)
        try:
            self._node = self._api.create(NODES, wanted)
        except AlreadyExists:
            labels = {"metadata": {"labels": wanted["metadata"]["labels"]}}
            self._node = self._api.patch(NODES, self._identity.name, "", labels)
        return self._node

    def _report(self, node: Mapping[str, Any]) -> None:
        now = self._clock.monotonic()
        if self._reported is not None:
            ready, at = self._reported
            if ready == self._network and now - at < REPORT_SECONDS:
                return
        before = node.get("status") or {}
        stamp = rfc3339(self._clock.now())
        status = node_status(self._identity, self._host, self._network, before, stamp)
        name = self._identity.name
        try:
            self._node = self._api.patch(NODES, name, "", {"status": status}, subresource="status")
        except NotFound:
            self._node = None  # somebody deleted it: register again
            raise
        self._reported = (self._network, now)

    def _renew(self, node: Mapping[str, Any]) -> None:
        if self._renewed is not None and not self._renewal_due():
            return
        stamp = rfc3339_micro(self._clock.now())
        patch = {"spec": lease_object(self._identity, node, stamp)["spec"]}
        try:
            if self._renewed is None:
                self._api.create(LEASES, lease_object(self._identity, node, stamp))
            else:
                self._api.patch(LEASES, self._identity.name, NODE_LEASES, patch)
        except AlreadyExists:
            self._api.patch(LEASES, self._identity.name, NODE_LEASES, patch)
        except NotFound:
            self._renewed = None  # the lease was deleted: create it at the next try
            raise
        self._renewed = self._clock.monotonic()

    def _renewal_due(self) -> bool:
        if self._renewed is None:
            return False
        return self._clock.monotonic() - self._renewed >= self._identity.lease_seconds / 4

    def _pause(self) -> float:
        now = self._clock.monotonic()
        if not self._network:
            return NETWORK_LOOK
        if self._retry_at > now:
            return self._retry_at - now
        if self._renewed is None:
            return RETRY_FIRST
        return max(0.0, self._renewed + self._identity.lease_seconds / 4 - now)
