"""Endpoints: the older, one-object list of what is behind a Service.

It has the Service's name. Ready pods' addresses stand under ``addresses``, the others
under ``notReadyAddresses``, so people see at once why a Service does not answer; a pod
that is being deleted leaves. kube-proxy today reads EndpointSlices, people still type
``kubectl get endpoints``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.client.kinds import ENDPOINTS, PODS, SERVICES
from labnet.client.views import Key, key_of
from labnet.controllers.endpoint_ports import (
    Member,
    Port,
    by_ports,
    is_headless,
    members,
    reference_to,
    selects_pods,
    tolerates_unready,
)
from labnet.controllers.loop import KeysOf, Mirrors
from labnet.controllers.services import ServiceIndex
from labnet.controllers.writes import (
    Create,
    Outcome,
    Remove,
    Say,
    Update,
    Write,
    patience_for,
    remove,
)

MANAGED_BY = "endpoints.kubernetes.io/managed-by"
HEADLESS = "service.kubernetes.io/headless"


def reconcile(service: Object, pods: Iterable[Object], current: Object | None) -> Outcome:
    """Return the write that makes the Endpoints object say what is behind ``service``."""
    if not selects_pods(service):
        return Outcome()
    found = members(service, pods)
    wanted = endpoints_of(service, found)
    if current is None:
        return Outcome((Create(ENDPOINTS, wanted),))
    new = _over(current, wanted)
    if new == current:
        return Outcome()
    return Outcome((Update(ENDPOINTS, new),), patience=patience_for(len(found)))


def endpoints_of(service: Object, found: Iterable[Member]) -> Object:
    """Return the Endpoints object for a Service with these pods."""
    namespace, name = key_of(service)
    staying = tuple(m for m in found if not m.terminating or tolerates_unready(service))
    subsets = [_subset(service, ports, group) for ports, group in by_ports(staying).items()]
    labels = dict(service["metadata"].get("labels") or {}) | {MANAGED_BY: "endpoint-controller"}
    if is_headless(service):
        labels[HEADLESS] = ""
    made: Object = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
    }
    filled = [s for s in subsets if s.get("ports") or is_headless(service)]
    return made | ({"subsets": filled} if filled else {})


def _subset(service: Object, ports: tuple[Port, ...], group: Iterable[Member]) -> Object:
    published = tolerates_unready(service)
    ready = [_address(m) for m in group if m.serving or published]
    unready = [_address(m) for m in group if not (m.serving or published)]
    subset: dict[str, Any] = {
        "addresses": ready,
        "notReadyAddresses": unready,
        "ports": [_port(p) for p in ports],
    }
    return {key: value for key, value in subset.items() if value}


def _address(member: Member) -> Object:
    address: Object = {"ip": member.ip}
    if member.hostname:
        address["hostname"] = member.hostname
    if member.node:
        address["nodeName"] = member.node
    return address | {"targetRef": reference_to(member)}


def _port(port: Port) -> Object:
    named = {"name": port.name} if port.name else {}
    extra = {"appProtocol": port.app_protocol} if port.app_protocol else {}
    return {**named, "port": port.port, "protocol": port.protocol, **extra}


def _over(current: Object, wanted: Object) -> Object:
    """Return ``current`` with the labels and subsets of ``wanted``."""
    metadata = {**current["metadata"], "labels": wanted["metadata"]["labels"]}
    kept = {k: v for k, v in current.items() if k != "subsets"}
    subsets = {"subsets": wanted["subsets"]} if "subsets" in wanted else {}
    return {**kept, "metadata": metadata, **subsets}


class EndpointsReconciler:
    """The reconciler's eyes and memory."""

    name = "endpoint-controller"

    def __init__(self, mirrors: Mirrors, services: ServiceIndex) -> None:
        self._services = services
        self._pods = mirrors.of(PODS)
        self._endpoints = mirrors.of(ENDPOINTS)
        self._written: dict[Key, str] = {}  # the version last written

    def watched(self) -> Mapping[Resource, KeysOf]:
        """Services, the Services that select a changed pod, and Endpoints themselves."""
        return {
            SERVICES: lambda obj: (key_of(obj),),
            PODS: self._services.selecting,
            ENDPOINTS: lambda obj: (key_of(obj),),
        }

    def look(self, key: Key) -> Outcome:
        """Decide about one Service, once the mirror shows what was written last.

        A Service that is gone takes its Endpoints along.
        """
        if not self._endpoints.reached(self._written.get(key, "0")):
            return Outcome()
        namespace, name = key
        service = self._services.get(key)
        current = self._endpoints.get(name, namespace)
        if service is None:
            self._written.pop(key, None)
            ours = current and MANAGED_BY in (current["metadata"].get("labels") or {})
            return Outcome((remove(ENDPOINTS, current),)) if current and ours else Outcome()
        return reconcile(service, self._pods.objects(namespace), current)

    def wrote(self, key: Key, write: Write, answer: Object | None) -> Say | None:
        """Remember what the mirror must show before the next pass."""
        if answer is not None and not isinstance(write, Remove):
            self._written[key] = answer["metadata"]["resourceVersion"]
        return None
