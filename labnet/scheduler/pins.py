"""Pinned addresses: a scenario may say which pod addresses an owner's pods get.

The articles' my-nginx has 10.244.1.10 and 10.244.2.10. A pod of a pinned owner gets the
first pinned address that no other pod has, on the node whose subnet holds it. Where a
pod that is being deleted still has one, its successor waits the moment until it is free,
so that a lesson's numbers are still true after ``kubectl delete pod``. When none is left
a pod is scheduled like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

from labnet.api.meta import Object
from labnet.client.views import controller_of, has_ended, key_of
from labnet.naming import POD_IP_ANNOTATION


@dataclass(frozen=True, slots=True)
class Pins:
    """Addresses by owner (``namespace/name``), and the nodes' subnets that hold them."""

    addresses: Mapping[str, tuple[IPv4Address, ...]] = field(default_factory=dict)
    subnets: Mapping[str, IPv4Network] = field(default_factory=dict)

    def wanted(self, owner: str) -> Iterable[tuple[IPv4Address, str]]:
        """Yield an owner's pinned addresses, each with its node's name."""
        for address in self.addresses.get(owner, ()):
            for node, subnet in self.subnets.items():
                if address in subnet:
                    yield address, node


def owner_of(pod: Object, replica_sets: Mapping[str, Object]) -> str:
    """Return ``namespace/name`` of what a pod belongs to: its Deployment, where it has one.

    ``replica_sets`` has the ReplicaSets by uid. A pod without a controller is its own.
    """
    namespace, name = key_of(pod)
    owner = controller_of(pod)
    if owner and owner["kind"] == "ReplicaSet" and owner["uid"] in replica_sets:
        owner = controller_of(replica_sets[owner["uid"]]) or owner
    return f"{namespace}/{owner['name'] if owner else name}"


def is_known(pod: Object, replica_sets: Mapping[str, Object]) -> bool:
    """Whether ``owner_of`` can tell: the mirror of ReplicaSets may lag behind that of pods."""
    owner = controller_of(pod)
    return owner is None or owner["kind"] != "ReplicaSet" or owner["uid"] in replica_sets


def taken(pods: Iterable[Object]) -> dict[str, Object]:
    """Return the addresses that pods have, or were promised, and whose; ended ones have none."""
    found: dict[str, Object] = {}
    for pod in pods:
        if has_ended(pod):
            continue
        promised = (pod["metadata"].get("annotations") or {}).get(POD_IP_ANNOTATION)
        address = (pod.get("status") or {}).get("podIP")
        found.update({a: pod for a in (promised, address) if a})
    return found
