"""What a Service's pods contribute: an address each, and the ports it is reached at.

A Service's ``targetPort`` may be a name, which each pod resolves by its own containers'
ports, so pods of one Service can have different port numbers. Pods with the same
resolved ports form one group: one subset of an Endpoints object, one or more slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labnet.api.meta import Object
from labnet.api.selectors import match_labels
from labnet.client.views import has_ended, is_deleting, is_ready, key_of, uid_of


@dataclass(frozen=True, slots=True)
class Port:
    """One port of a Service as its endpoints have it."""

    name: str
    port: int
    protocol: str
    app_protocol: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod behind a Service."""

    ip: str
    name: str
    namespace: str
    uid: str
    node: str
    hostname: str  # "" unless the Service is the pod's subdomain
    serving: bool  # its Ready condition
    terminating: bool
    ports: tuple[Port, ...]


def selects_pods(service: Object) -> bool:
    """Whether the Service's endpoints are for the controllers to keep."""
    spec = service["spec"]
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def is_headless(service: Object) -> bool:
    """Whether the Service has no cluster IP by its own wish."""
    return bool(service["spec"].get("clusterIP") == "None")


def tolerates_unready(service: Object) -> bool:
    """Whether pods are published before they are ready."""
    return bool(service["spec"].get("publishNotReadyAddresses"))


def members(service: Object, pods: Iterable[Object]) -> tuple[Member, ...]:
    """Return the pods behind ``service``, by address."""
    selector = match_labels(service["spec"].get("selector"))
    found = [
        _member(service, pod)
        for pod in pods
        if selector.matches(pod["metadata"].get("labels"))
        and (pod.get("status") or {}).get("podIP")
        and not has_ended(pod)
    ]
    return tuple(sorted(found, key=lambda m: (tuple(map(int, m.ip.split("."))), m.uid)))


def _member(service: Object, pod: Object) -> Member:
    namespace, name = key_of(pod)
    spec = pod["spec"]
    in_domain = spec.get("subdomain") == service["metadata"]["name"]
    return Member(
        ip=pod["status"]["podIP"],
        name=name,
        namespace=namespace,
        uid=uid_of(pod),
        node=spec.get("nodeName", ""),
        hostname=spec.get("hostname", "") if in_domain else "",
        serving=is_ready(pod),
        terminating=is_deleting(pod),
        ports=ports_of(service, pod),
    )


def ports_of(service: Object, pod: Object) -> tuple[Port, ...]:
    """Return the Service's ports as ``pod`` has them; a name it lacks is left out."""
    found = []
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol", "TCP")
        number = target_port(port, pod, protocol)
        if number:
            application = port.get("appProtocol", "")
            found.append(Port(port.get("name", ""), number, protocol, application))
    return tuple(found)


def target_port(port: Object, pod: Object, protocol: str) -> int:
    """Return the number behind ``targetPort``, 0 when the pod has no port of that name."""
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    if target.isdigit():
        return int(target)
    for container in pod["spec"].get("containers") or ():
        for offered in container.get("ports") or ():
            if offered.get("name") == target and offered.get("protocol", "TCP") == protocol:
                return int(offered["containerPort"])
    return 0


def by_ports(found: Sequence[Member]) -> dict[tuple[Port, ...], list[Member]]:
    """Group members by their ports, in a stable order."""
    groups: dict[tuple[Port, ...], list[Member]] = {}
    for member in found:
        groups.setdefault(member.ports, []).append(member)
    return dict(sorted(groups.items(), key=lambda item: [(p.name, p.port) for p in item[0]]))


def reference_to(member: Member) -> Object:
    """Return the ObjectReference to the pod."""
    return {
        "kind": "Pod",
        "namespace": member.namespace,
        "name": member.name,
        "uid": member.uid,
    }
