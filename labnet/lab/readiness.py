"""When a lab counts as up, and if it is not, what is missing and where to look.

Up means: every node Ready, every Deployment with as many Ready pods as it wants, every
other pod Ready, every Service that selects a Ready pod with an endpoint. All of it is
read from objects as the API server returns them, by pure functions, so the same
answer serves the waiting, the progress line and the explanation after a timeout.

What the API cannot say, whether packets get through, is asked of the kernel afterwards:
:func:`doors` names the virtual addresses that must then take a connection.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The objects that readiness depends on, as listed from the API server."""

    nodes: Sequence[Object] = ()
    deployments: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    services: Sequence[Object] = ()
    slices: Sequence[Object] = ()  # EndpointSlices


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that is not ready: what, why, and whose log says more."""

    what: str  # "pod default/my-nginx-5d8f-x2x4v"
    why: str
    log: str  # a component's name


@dataclass(frozen=True, slots=True)
class Door:
    """A Service's virtual address that should take TCP connections."""

    service: str  # "default/my-nginx"
    address: str
    port: int


def missing(cluster: Cluster, expected_nodes: Collection[str]) -> tuple[Missing, ...]:
    """Return everything that keeps ``cluster`` from being up; empty when it is."""
    return (
        *_missing_nodes(cluster, expected_nodes),
        *_missing_deployments(cluster),
        *_missing_pods(cluster),
        *_missing_endpoints(cluster),
    )


def _missing_nodes(cluster: Cluster, expected: Collection[str]) -> Iterator[Missing]:
    found = {node["metadata"]["name"]: node for node in cluster.nodes}
    for name in expected:
        log = f"kubelet@{name}"
        if name not in found:
            yield Missing(f"node {name}", "has not registered", log)
        elif (ready := condition(found[name], "Ready")).get("status") != "True":
            yield Missing(f"node {name}", str(ready.get("message") or "is not Ready"), log)


def _missing_deployments(cluster: Cluster) -> Iterator[Missing]:
    for deployment in cluster.deployments:
        wanted = deployment.get("spec", {}).get("replicas", 1)
        status = deployment.get("status", {})
        generation = deployment["metadata"].get("generation", 0)
        seen = status.get("observedGeneration", 0) >= generation
        ready = min(status.get("readyReplicas", 0), status.get("updatedReplicas", 0))
        if not seen or ready < wanted:
            why = f"{ready} of {wanted} replicas are ready"
            yield Missing(f"deployment {_full_name(deployment)}", why, "kube-controller-manager")


def _missing_pods(cluster: Cluster) -> Iterator[Missing]:
    for pod in cluster.pods:
        if pod.get("status", {}).get("phase") != "Succeeded" and not _is_ready(pod):
            why, log = _why_not_ready(pod)
            yield Missing(f"pod {_full_name(pod)}", why, log)


def _why_not_ready(pod: Object) -> tuple[str, str]:
    scheduled = condition(pod, "PodScheduled")
    node = pod.get("spec", {}).get("nodeName")
    if not node:
        return str(scheduled.get("message") or "is not scheduled yet"), "kube-scheduler"
    status = pod.get("status", {})
    states = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    reasons = [reason for state in states if (reason := _container_reason(state))]
    ready = condition(pod, "Ready").get("message")
    return "; ".join(reasons) or str(ready or status.get("phase", "Pending")), f"kubelet@{node}"


def _container_reason(status: Object) -> str:
    state = status.get("state", {})
    for kind in ("waiting", "terminated"):
        if (found := state.get(kind)) and found.get("reason") != "Completed":
            text = ": ".join(filter(None, (found.get("reason"), found.get("message"))))
            return f"container {status['name']}: {text or kind}"
    return ""


def _missing_endpoints(cluster: Cluster) -> Iterator[Missing]:
    for service in cluster.services:
        wanted = sum(1 for pod in cluster.pods if _is_ready(pod) and _selects(service, pod))
        if wanted > len(ready_addresses(service, cluster.slices)):
            why = f"not all of its {wanted} ready pods are endpoints yet"
            yield Missing(f"service {_full_name(service)}", why, "kube-controller-manager")


def doors(cluster: Cluster) -> tuple[Door, ...]:
    """Return the TCP ports of all Services that have a virtual address and an endpoint.

    UDP says nothing when it works, and a Service without endpoints refuses by design.
    """
    return tuple(
        Door(_full_name(service), service["spec"]["clusterIP"], port["port"])
        for service in cluster.services
        if service["spec"].get("clusterIP") not in (None, "", "None")
        if ready_addresses(service, cluster.slices)
        for port in service["spec"].get("ports", ())
        if port.get("protocol", "TCP") == "TCP"
    )


def explanation(found: Sequence[Missing], events: Sequence[Object]) -> str:
    """Return a few lines per missing thing: why, the last Warning about it, whose log."""
    lines = []
    for one in found:
        lines.append(f"{one.what}: {one.why}")
        reason, message = _last_warning(one.what, events)
        if message and message not in one.why:
            lines.append(f"    last event: {reason}: {message}")
        lines.append(f"    more in: labnet logs {one.log}")
    return "\n".join(lines)


def _last_warning(what: str, events: Sequence[Object]) -> tuple[str, str]:
    kind, _, name = what.partition(" ")
    about = [event for event in events if _is_about(event, kind, name)]
    about.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    last: Object = about[-1] if about else {}
    return str(last.get("reason", "")), str(last.get("message", ""))


def _is_about(event: Object, kind: str, name: str) -> bool:
    about = event.get("involvedObject", {})
    full = f"{about.get('namespace', '')}/{about.get('name')}".lstrip("/")
    same = str(about.get("kind", "")).lower() == kind and name in (full, about.get("name"))
    return same and event.get("type") == "Warning"


# -- reading objects --------------------------------------------------------------------


def condition(obj: Object, kind: str) -> Object:
    """Return the condition of this type in an object's status; empty if there is none."""
    conditions = obj.get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), {})


def _is_ready(pod: Object) -> bool:
    return condition(pod, "Ready").get("status") == "True"


def _full_name(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', 'default')}/{obj['metadata']['name']}"


def _selects(service: Object, pod: Object) -> bool:
    selector: Mapping[str, str] = service["spec"].get("selector") or {}
    same_namespace = service["metadata"].get("namespace") == pod["metadata"].get("namespace")
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return bool(selector) and same_namespace and selector.items() <= labels.items()


def ready_addresses(service: Object, slices: Sequence[Object]) -> set[str]:
    """Return the addresses of a Service's ready endpoints."""
    name, namespace = service["metadata"]["name"], service["metadata"].get("namespace")
    return {
        address
        for one in slices
        if one["metadata"].get("namespace") == namespace
        if (one["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == name
        for endpoint in one.get("endpoints") or ()
        if endpoint.get("conditions", {}).get("ready", True)
        for address in endpoint.get("addresses", ())
    }
