"""A running lab at one moment: hosts, components, subnets, pods and services.

Two sources, so that one can be down: PID 1 knows processes, the API server knows
objects. Without the API server the picture still shows which component is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from labnet.errors import LabnetError
from labnet.lab.control import api_of, connect
from labnet.lab.readiness import Cluster, Object, condition, ready_addresses
from labnet.lab.state import LabInfo, StateDirectory, read_info
from labnet.lab.waiting import cluster_of
from labnet.sandbox.spec import Process
from labnet.sandbox.zygote import Zygote
from labnet.subnet import file as subnet_file

_PATIENCE = 3.0  # seconds for one answer of the API server
_SUBNET_ENTRY = "labnet.lab.status:subnet_here"


@dataclass(frozen=True, slots=True)
class Node:
    """A host of the lab; ``ready`` and ``subnet`` are "-" for clients."""

    name: str
    role: str
    address: str
    subnet: str
    ready: str


@dataclass(frozen=True, slots=True)
class Component:
    """A supervised process; ``pid`` is the one inside the lab, 0 while it is down."""

    name: str
    host: str
    state: str  # "running", or how it ended
    pid: int
    restarts: int


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as kubectl's wide table shows it."""

    namespace: str
    name: str
    ready: str  # "1/1"
    status: str
    restarts: int
    address: str
    node: str


@dataclass(frozen=True, slots=True)
class Service:
    """A Service and how many ready endpoints stand behind it."""

    namespace: str
    name: str
    type: str
    address: str
    ports: str
    endpoints: int


@dataclass(frozen=True, slots=True)
class Status:
    """Everything `labnet status` shows; ``trouble`` says why objects are missing."""

    lab: str
    title: str
    api: str
    nodes: tuple[Node, ...]
    components: tuple[Component, ...]
    pods: tuple[Pod, ...]
    services: tuple[Service, ...]
    trouble: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the same as plain JSON."""
        return asdict(self)


def status(state: StateDirectory) -> Status:
    """Look at a running lab once."""
    info = read_info(state)
    with closing(connect(state)) as zygote:
        processes = [one for one in zygote.list() if one.kind == "component"]
        subnets = _subnets(zygote, info)
    trouble, cluster = "", Cluster()
    try:
        with closing(api_of(state, info, timeout=_PATIENCE)) as api:
            cluster = cluster_of(api)
    except LabnetError as refusal:
        trouble = f"the API server does not answer: {refusal}"
    return picture(info, processes, subnets, cluster, trouble)


def _subnets(zygote: Zygote, info: LabInfo) -> dict[str, str]:
    nodes = [host.name for host in info.hosts if host.role != "client"]
    return {name: str(zygote.run(_SUBNET_ENTRY, {}, host=name)) for name in nodes}


def subnet_here(_: Mapping[str, object]) -> str:
    """Return the subnet that flanneld wrote down on this host; runs on the node."""
    found = subnet_file.read(subnet_file.PATH)
    return str(found.subnet) if found else "-"


# -- pure -------------------------------------------------------------------------------


def picture(
    info: LabInfo,
    processes: Sequence[Process],
    subnets: Mapping[str, str],
    cluster: Cluster,
    trouble: str = "",
) -> Status:
    """Return the status that these sources add up to."""
    ready = {one["metadata"]["name"]: condition(one, "Ready") for one in cluster.nodes}
    return Status(
        lab=info.name,
        title=info.title,
        api=info.api,
        nodes=tuple(
            Node(
                host.name, host.role, host.address, subnets.get(host.name, "-"),
                _readiness(host.role, ready.get(host.name), trouble),
            )
            for host in info.hosts
        ),
        components=tuple(_component(one) for one in processes),
        pods=tuple(_pod(one) for one in cluster.pods),
        services=tuple(_service(one, cluster.slices) for one in cluster.services),
        trouble=trouble,
    )  # fmt: skip


def _readiness(role: str, ready: Object | None, trouble: str) -> str:
    if role == "client":
        return "-"
    if trouble:
        return "unknown"
    if ready is None:
        return "absent"
    return {"True": "Ready", "False": "NotReady"}.get(str(ready.get("status")), "Unknown")


def _component(process: Process) -> Component:
    running = process.exit is None
    ended = f"ended with {process.exit.code}" if process.exit else ""
    pid = process.pid if running else 0
    return Component(process.id, process.node, ended or "running", pid, process.restarts)


def _pod(pod: Object) -> Pod:
    metadata, found = pod["metadata"], pod.get("status", {})
    states = found.get("containerStatuses") or ()
    ready = sum(1 for one in states if one.get("ready"))
    return Pod(
        namespace=metadata.get("namespace", "default"),
        name=metadata["name"],
        ready=f"{ready}/{len(pod['spec'].get('containers', ()))}",
        status=_pod_status(pod),
        restarts=sum(one.get("restartCount", 0) for one in states),
        address=found.get("podIP") or "-",
        node=pod["spec"].get("nodeName") or "-",
    )


def _pod_status(pod: Object) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for one in pod.get("status", {}).get("containerStatuses") or ():
        state = one.get("state", {})
        for kind in ("waiting", "terminated"):
            if reason := state.get(kind, {}).get("reason"):
                return str(reason)
    return str(pod.get("status", {}).get("phase", "Pending"))


def _service(service: Object, slices: Sequence[Object]) -> Service:
    spec = service["spec"]
    return Service(
        namespace=service["metadata"].get("namespace", "default"),
        name=service["metadata"]["name"],
        type=spec.get("type", "ClusterIP"),
        address=spec.get("clusterIP") or "-",
        ports=",".join(map(_port, spec.get("ports") or ())) or "-",
        endpoints=len(ready_addresses(service, slices)),
    )


def _port(port: Mapping[str, Any]) -> str:
    outside = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{outside}/{port.get('protocol', 'TCP')}"
