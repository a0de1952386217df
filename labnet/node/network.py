"""What a kubelet asks of the network: an address for a pod, and its way back.

The kubelet makes a sandbox, which comes with an empty network namespace, and hands it
over here as a file descriptor. :class:`BridgeNetwork` does what the container runtime
and the CNI plugins ``bridge`` and ``host-local`` do in life: it reserves an address of
the node's subnet, lays a cable from the pod's ``eth0`` to a port of ``cni0``, and
remembers both on disk, so that a restarted kubelet finds its pods' addresses again.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Protocol

from labnet import naming
from labnet.cni import bridge, host_local
from labnet.cni import result as cni
from labnet.cni.host_local import AddressStore
from labnet.errors import LabnetError, OpFailed, Unavailable
from labnet.ipam.addresses import pod_range
from labnet.linux.files import write_whole
from labnet.plan.diff import diff
from labnet.plan.kernel import Kernel
from labnet.plan.ops import Attach, DeleteLink, SetLink
from labnet.plan.state import Scope
from labnet.subnet import file as subnet_file
from labnet.subnet.file import SubnetEnv

log = logging.getLogger("kubelet")


@dataclass(frozen=True, slots=True)
class PodAddress:
    """How one pod is attached: what ``ip addr`` in the pod and on the node show."""

    ip: IPv4Address
    gateway: IPv4Address
    prefix_length: int
    interface: str  # in the pod: "eth0"
    host_interface: str  # on the node: "veth1a2b3c4d", a port of cni0
    mac: str  # of the pod's interface


class PodNetwork(Protocol):
    """The node's pod network. All methods may be called from any thread."""

    def ready(self) -> bool:
        """Return whether pods can be attached (flanneld has written subnet.env)."""

    def add(
        self,
        sandbox_id: str,
        netns: int,
        requested: IPv4Address | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> PodAddress:
        """Attach the pod whose network namespace is open as file descriptor ``netns``.

        ``requested`` is the address the pod must have (annotation
        ``labnet.dev/pod-ip``); None takes the next free one that is not reserved.
        ``labels`` name the owner in the result cache (``K8S_POD_NAME`` …). Calling it
        again for an attached sandbox returns what it has. Raises ``Unavailable`` before
        the network is ready, ``Exhausted``, ``AlreadyExists`` where another pod holds
        ``requested``, ``OpFailed``; a failed call leaves nothing behind.
        """

    def delete(self, sandbox_id: str) -> None:
        """Detach the pod and free its address; fine if it is not attached."""

    def check(self, sandbox_id: str) -> PodAddress | None:
        """Return how the pod is attached, None if it is not."""

    def list(self) -> dict[str, PodAddress]:
        """Return every attached sandbox by id, also those of an earlier kubelet."""


class BridgeNetwork:
    """The bridge plugin and host-local on one node, over the :class:`Kernel` given.

    What it knows is in files below ``state_dir``, in CNI's own places: addresses in
    ``networks/cbr0``, results in ``results``, the configuration in ``net.d``.
    """

    def __init__(
        self,
        kernel: Kernel,
        subnet_file: Path = subnet_file.PATH,
        state_dir: Path = Path("/var/lib/cni"),
        range_start: IPv4Address | None = None,
        reserved: Collection[IPv4Address] = (),
    ) -> None:
        self._kernel = kernel
        self._subnet_file = subnet_file
        self._state = state_dir
        self._range_start = range_start
        self._reserved = frozenset(reserved)
        self._bridge = threading.Lock()  # two first pods must not both make cni0
        self._described: SubnetEnv | None = None  # what the configuration list says
        self._addresses = AddressStore(state_dir / "networks" / cni.NETWORK)

    def ready(self) -> bool:
        """Return whether subnet.env is there."""
        return subnet_file.read(self._subnet_file) is not None

    def add(
        self,
        sandbox_id: str,
        netns: int,
        requested: IPv4Address | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> PodAddress:
        """Attach a pod; see :meth:`PodNetwork.add`."""
        if there := self.check(sandbox_id):
            return there
        env = self._environment()
        container = cni.container_id(sandbox_id)
        within = pod_range(env.subnet, self._range_start)
        address = host_local.allocate(
            self._addresses, within, container, bridge.INTERFACE, requested, self._reserved
        )
        try:
            self._ensure_bridge(env)
            made = self._attach(sandbox_id, netns, address, env)
            self._remember(sandbox_id, made, labels or {})
        except (LabnetError, OSError):
            self._undo(naming.host_veth(sandbox_id))
            host_local.release(self._addresses, container)
            raise
        return _pod_address(made)

    def delete(self, sandbox_id: str) -> None:
        """Detach a pod and free its address.

        The port stops at once; the pair itself goes with the pod's namespace, which
        the kernel takes apart for a hundred pods in the time that deleting seven
        links one by one would take.
        """
        container = cni.container_id(sandbox_id)
        path = self._cache(container)
        found = _parse(path)
        if found:
            self._stop(found[1].port)
        host_local.release(self._addresses, container)
        path.unlink(missing_ok=True)

    def check(self, sandbox_id: str) -> PodAddress | None:
        """Return how a pod is attached, None if it is not."""
        found = _parse(self._cache(cni.container_id(sandbox_id)))
        return _pod_address(found[1]) if found else None

    def list(self) -> dict[str, PodAddress]:
        """Return every attached sandbox by id."""
        paths = (self._state / "results").glob(f"{cni.NETWORK}-*")
        found = filter(None, map(_parse, paths))
        return {sandbox: _pod_address(made) for sandbox, made in found}

    def _environment(self) -> SubnetEnv:
        env = subnet_file.read(self._subnet_file)
        if env is None:
            raise Unavailable(
                f"the pod network is not ready: {self._subnet_file} is missing",
                hint="flanneld writes it once it has a subnet lease; see its log",
            )
        return env

    def _ensure_bridge(self, env: SubnetEnv) -> None:
        """Make cni0 what it should be, and the configuration that says so."""
        with self._bridge:
            observed = self._kernel.observe(bridge.SCOPE)
            self._kernel.apply_all(diff(bridge.desired(env.subnet, env.mtu), observed))
            if env != self._described:
                document = json.dumps(cni.conflist(env.mtu, env.subnet), indent=2)
                write_whole(self._state / "net.d" / "10-flannel.conflist", document + "\n")
                self._described = env

    def _attach(
        self, sandbox: str, netns: int, address: IPv4Address, env: SubnetEnv
    ) -> cni.Attachment:
        cable = bridge.cable(sandbox, address, env.subnet, env.mtu)
        self._kernel.attach(Attach(cable, f"pod sandbox {sandbox} starts"), netns)
        return cni.Attachment(
            container=cni.container_id(sandbox),
            address=cable.address,
            gateway=cable.gateway,
            bridge=cable.bridge,
            port=cable.port,
            port_mac=cable.port_mac,
            mac=cable.mac,
        )

    def _undo(self, port: str) -> None:
        """Take up a cable that was laid for a pod that then failed."""
        if self._kernel.observe(Scope(links=frozenset({port}))).link(port):
            self._kernel.apply(DeleteLink(port, "attaching its pod failed"))

    def _stop(self, port: str) -> None:
        link = self._kernel.observe(Scope(links=frozenset({port}))).link(port)
        if link is None:  # gone already, with the pod's namespace
            return
        try:
            self._kernel.apply(SetLink(link, replace(link, up=False), "its pod ends"))
        except OpFailed:
            log.debug("%s went away while it was being stopped", port)

    def _cache(self, container: str) -> Path:
        return self._state / "results" / cni.cache_name(container)

    def _remember(self, sandbox: str, made: cni.Attachment, labels: Mapping[str, str]) -> None:
        mac = bridge.pod_mac(made.gateway)
        write_whole(self._cache(made.container), cni.cached(made, mac, sandbox, labels))


def _parse(path: Path) -> tuple[str, cni.Attachment] | None:
    try:
        return cni.parse_cached(path.read_text())
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


def _pod_address(made: cni.Attachment) -> PodAddress:
    return PodAddress(
        ip=made.address.ip,
        gateway=made.gateway,
        prefix_length=made.address.network.prefixlen,
        interface=made.interface,
        host_interface=made.port,
        mac=made.mac,
    )
