"""EndpointSlices: what is behind a Service, in portions, with each pod's state.

kube-proxy reads these. Each endpoint says whether it is *ready* (send it traffic),
*serving* (its probe is content) and *terminating* (being deleted, perhaps still serving
what it has). A slice holds at most a hundred endpoints with the same ports; an endpoint
stays in the slice it is in, new ones fill the gaps, so that one pod's change rewrites
one slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.client.kinds import ENDPOINT_SLICES, PODS, SERVICES
from labnet.client.views import Key, controller_reference, key_of
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
from labnet.controllers.writes import Create, Outcome, Say, Update, Write, patience_for, remove

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
CONTROLLER = "endpointslice-controller.k8s.io"
HEADLESS = "service.kubernetes.io/headless"
MOST = 100  # endpoints in one slice


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A Service, the pods of its namespace, and the slices that are there."""

    service: Object
    pods: tuple[Object, ...]
    slices: tuple[Object, ...]


def reconcile(snapshot: Snapshot) -> Outcome:
    """Return the writes that make the slices say what is behind the Service."""
    service = snapshot.service
    if not selects_pods(service):
        return Outcome()
    found = members(service, snapshot.pods)
    groups = by_ports(found) or {(): []}
    taken, spare = _portioned(groups, snapshot.slices)
    writes: list[Write] = []
    for ports, group in groups.items():
        mine = taken[ports] or [spare.pop() for _ in spare[:1]]  # rather rewritten than replaced
        writes += _group(service, [_port(p) for p in ports], group, mine)
    writes += [remove(ENDPOINT_SLICES, s) for s in spare]
    return Outcome(tuple(writes), patience=patience_for(len(found)))


def _portioned(
    groups: Iterable[tuple[Port, ...]], slices: Iterable[Object]
) -> tuple[dict[tuple[Port, ...], list[Object]], list[Object]]:
    """Return the slices that have each group's ports, and those that have nobody's."""
    taken: dict[tuple[Port, ...], list[Object]] = {ports: [] for ports in groups}
    spare: list[Object] = []
    for each in slices:
        taken.get(_ports_of(each), spare).append(each)
    return taken, spare


def _ports_of(slice_: Object) -> tuple[Port, ...]:
    return tuple(
        Port(p.get("name") or "", p["port"], p.get("protocol", "TCP"), p.get("appProtocol", ""))
        for p in slice_.get("ports") or ()
    )


def _group(
    service: Object, ports: list[Object], group: Sequence[Member], slices: Sequence[Object]
) -> list[Write]:
    """Return the writes for the pods that share ``ports``."""
    wanted = {(m.ip, m.uid): _endpoint(service, m) for m in group}
    placed: list[list[Object]] = []
    for each in slices:
        names = [_identity_of(e) for e in each.get("endpoints") or ()]
        placed.append([wanted.pop(name) for name in names if name in wanted])
    _fill(placed, list(wanted.values()), at_least_one=not slices)
    writes: list[Write] = []
    for position, endpoints in enumerate(placed):
        current = slices[position] if position < len(slices) else None
        if current is not None and not endpoints and len(placed) > 1:
            writes.append(remove(ENDPOINT_SLICES, current))
        else:
            writes += _written(service, ports, endpoints, current)
    return writes


def _fill(placed: list[list[Object]], new: list[Object], *, at_least_one: bool) -> None:
    """Put ``new`` endpoints where there is room, then into further slices."""
    for group in placed:
        room = MOST - len(group)
        group += new[:room]
        del new[:room]
    while new or (at_least_one and not placed):
        placed.append(new[:MOST])
        del new[:MOST]


def _identity_of(endpoint: Object) -> tuple[str, str]:
    return endpoint["addresses"][0], (endpoint.get("targetRef") or {}).get("uid", "")


def _written(
    service: Object, ports: list[Object], endpoints: list[Object], current: Object | None
) -> list[Write]:
    labels = labels_of(service)
    if current is None:
        return [Create(ENDPOINT_SLICES, _slice(service, labels, ports, endpoints))]
    metadata = {**current["metadata"], "labels": labels}
    new = {**current, "metadata": metadata, "endpoints": endpoints, "ports": ports}
    return [] if _essence(new) == _essence(current) else [Update(ENDPOINT_SLICES, new)]


_SET_HERE = ("addresses", "conditions", "targetRef", "hostname", "nodeName")


def _essence(slice_: Object) -> object:
    """What this controller decides about a slice, without what the server filled in."""
    endpoints = [[e.get(field) for field in _SET_HERE] for e in slice_.get("endpoints") or ()]
    return slice_["metadata"].get("labels"), _ports_of(slice_), endpoints


def labels_of(service: Object) -> dict[str, str]:
    """Return a slice's labels: the Service's own, and whose and by whom it is."""
    labels = dict(service["metadata"].get("labels") or {})
    labels |= {SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: CONTROLLER}
    if is_headless(service):
        labels[HEADLESS] = ""
    else:
        labels.pop(HEADLESS, None)
    return labels


def _slice(
    service: Object, labels: dict[str, str], ports: list[Object], endpoints: list[Object]
) -> Object:
    namespace, name = key_of(service)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{name}-",
            "namespace": namespace,
            "labels": labels,
            "ownerReferences": [controller_reference(service)],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    }


def _endpoint(service: Object, member: Member) -> Object:
    published = tolerates_unready(service)
    endpoint: Object = {
        "addresses": [member.ip],
        "conditions": {
            "ready": published or (member.serving and not member.terminating),
            "serving": member.serving,
            "terminating": member.terminating,
        },
        "targetRef": reference_to(member),
    }
    if member.hostname:
        endpoint["hostname"] = member.hostname
    if member.node:
        endpoint["nodeName"] = member.node
    return endpoint


def _port(port: Port) -> Object:
    extra = {"appProtocol": port.app_protocol} if port.app_protocol else {}
    return {"name": port.name, "port": port.port, "protocol": port.protocol, **extra}


class EndpointSlices:
    """The reconciler's eyes and memory."""

    name = "endpoint-slice-controller"

    def __init__(self, mirrors: Mirrors, services: ServiceIndex) -> None:
        self._services = services
        self._pods = mirrors.of(PODS)
        self._slices = mirrors.of(ENDPOINT_SLICES)
        self._written: dict[Key, str] = {}  # the version of the last slice made

    def watched(self) -> Mapping[Resource, KeysOf]:
        """Services, the Services that select a changed pod, and whose a slice is."""
        return {
            SERVICES: lambda obj: (key_of(obj),),
            PODS: self._services.selecting,
            ENDPOINT_SLICES: _service_of,
        }

    def look(self, key: Key) -> Outcome:
        """Decide about one Service, once the mirror shows every slice made for it.

        The slices of one that is gone are the garbage collector's: they have an owner.
        """
        service = self._services.get(key)
        if service is None:
            self._written.pop(key, None)
            return Outcome()
        if not self._slices.reached(self._written.get(key, "0")):
            return Outcome()
        namespace, name = key
        slices = tuple(s for s in self._slices.objects(namespace) if _is_ours(s, name))
        return reconcile(Snapshot(service, tuple(self._pods.objects(namespace)), slices))

    def wrote(self, key: Key, write: Write, answer: Object | None) -> Say | None:
        """Remember what the mirror must show before the next pass."""
        if isinstance(write, Create | Update) and answer is not None:
            last = self._written.get(key, "0")
            self._written[key] = max(last, answer["metadata"]["resourceVersion"], key=int)
        return None


def _is_ours(slice_: Object, service: str) -> bool:
    labels = slice_["metadata"].get("labels") or {}
    return (labels.get(SERVICE_NAME), labels.get(MANAGED_BY)) == (service, CONTROLLER)


def _service_of(slice_: Object) -> Iterable[Key]:
    labels = slice_["metadata"].get("labels") or {}
    if labels.get(MANAGED_BY) != CONTROLLER or not labels.get(SERVICE_NAME):
        return ()
    return ((slice_["metadata"]["namespace"], labels[SERVICE_NAME]),)
