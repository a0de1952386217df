"""What a kubelet asks of the network: an address for a pod, and its way back.

The kubelet makes a sandbox, which comes with an empty network namespace, and hands it
over here as a file descriptor. :class:`BridgeNetwork` does what the container runtime
and the CNI plugins ``bridge`` and ``host-local`` do in life: it reserves an address of
the node's subnet, lays a cable from the pod's ``eth0`` to a port of ``cni0``, and
remembers both on disk, so that a restarted kubelet finds its pods' addresses again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Protocol

from labnet.plan.kernel import Kernel


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
    """The bridge plugin and host-local on one node, over the :class:`Kernel` given."""

    def __init__(
        self,
        kernel: Kernel,
        subnet_file: Path = Path("/run/flannel/subnet.env"),
        state_dir: Path = Path("/var/lib/cni"),
        range_start: IPv4Address | None = None,
        reserved: Collection[IPv4Address] = (),
    ) -> None:
        raise NotImplementedError
