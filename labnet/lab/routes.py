"""Where a forwarded connection comes out: from which host it is dialled, to which address.

A Service is dialled by its virtual IP from a node, so the connection takes the way that
kube-proxy made. A pod is dialled from its own node. A host is dialled from itself.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labnet.errors import LabnetError, NotFound, Unavailable
from labnet.lab import hosts
from labnet.lab.control import Api, api_of
from labnet.lab.state import LabInfo, StateDirectory
from labnet.lab.target import Ports, Target
from labnet.sandbox.zygote import Zygote

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Destination:
    """An address and port, as seen from a host of the lab."""

    host: str
    address: str
    port: int

    def __str__(self) -> str:
        return f"({self.address}:{self.port} from {self.host})"


def destinations(
    state: StateDirectory, info: LabInfo, target: Target, namespace: str, ports: Sequence[Ports]
) -> list[Destination]:
    """Return where each of ``ports`` leads.

    Raises ``NotFound`` for what is not there, ``LabnetError`` for what takes no TCP.
    """
    if target.kind == "host":
        name = hosts.named(info, target.name)
        address = next(host.address for host in info.hosts if host.name == name)
        return [Destination(name, address, _number(pair.remote)) for pair in ports]
    with contextlib.closing(api_of(state, info)) as api:
        found = _object(api, target, namespace)
    if target.kind == "pod":
        return [to_pod(found, pair.remote) for pair in ports]
    worker = next((host.name for host in info.hosts if host.role == "worker"), info.hosts[0].name)
    return [to_service(found, pair.remote, worker) for pair in ports]


def to_pod(pod: Object, port: str) -> Destination:
    """Return the way to a pod's port, given as number or by its name."""
    name = pod["metadata"]["name"]
    address, node = pod.get("status", {}).get("podIP"), pod["spec"].get("nodeName")
    if not address or not node:
        raise Unavailable(
            f"pod {name} has no address yet", hint=f"labnet kubectl describe pod {name}"
        )
    named = {
        one["name"]: one["containerPort"]
        for container in pod["spec"]["containers"]
        for one in container.get("ports") or ()
        if "name" in one
    }
    return Destination(node, address, named.get(port) or _number(port, tuple(named)))


def to_service(service: Object, port: str, host: str) -> Destination:
    """Return the way to a Service's port over its virtual IP."""
    name, spec = service["metadata"]["name"], service["spec"]
    address = spec.get("clusterIP")
    if address in (None, "", "None"):
        raise LabnetError(f"service {name} has no virtual IP", hint="forward to one of its pods")
    for one in spec.get("ports", ()):
        if port in (one.get("name"), str(one["port"])):
            if one.get("protocol", "TCP") != "TCP":
                raise LabnetError(
                    f"port {port} of service {name} is {one['protocol']}",
                    hint="only TCP can be forwarded",
                )
            return Destination(host, address, one["port"])
    known = ", ".join(str(one["port"]) for one in spec.get("ports", ()))
    raise NotFound(f"service {name} has no port {port}", hint=f"it has: {known}")


def dialling(zygote: Zygote, end: Destination) -> Callable[[], socket.socket]:
    """Return what makes one connection to ``end``."""

    def dial() -> socket.socket:
        return socket.socket(fileno=zygote.dial(end.address, end.port, host=end.host))

    return dial


def _object(api: Api, target: Target, namespace: str) -> Object:
    plural = {"pod": "pods", "service": "services"}[target.kind]
    path = f"/api/v1/namespaces/{namespace}/{plural}"
    try:
        return api.get(f"{path}/{target.name}")
    except NotFound:
        names = [one["metadata"]["name"] for one in api.items(path)]
        raise NotFound(
            f"there is no {target.kind} {target.name} in namespace {namespace}",
            hint=f"there are: {', '.join(names)}" if names else "-n says which namespace",
        ) from None


def _number(port: str, named: Sequence[str] = ()) -> int:
    if port.isdigit():
        return int(port)
    hint = f"named ports: {', '.join(named)}" if named else "give its number"
    raise NotFound(f"there is no port called {port!r}", hint=hint)
