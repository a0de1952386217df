"""What the parts of a Lab demand of each other: no two hosts, subnets or ports clash.

The schema knows each field alone; these rules look at the whole. Each rule is a small
generator over the finished Lab that yields *where* (a path into the document) and
*what*; the loader turns the path into a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

from labnet.scenario.model import Client, Lab, Node

Path = tuple[str | int, ...]
Finding = tuple[Path, str]
Rule = Callable[[Lab], Iterator[Finding]]
_SPEC: Path = ("spec",)
SMALLEST_UNDERLAY = 29


def findings(lab: Lab) -> Iterator[Finding]:
    """Yield everything that does not fit together in ``lab``."""
    for rule in _RULES:
        yield from rule(lab)


def _one_control_plane(lab: Lab) -> Iterator[Finding]:
    planes = [node.name for node in lab.nodes if node.role == "control-plane"]
    if len(planes) > 1:
        yield (*_SPEC, "nodes"), f"one control plane at most, not {', '.join(planes)}"


def _host_names_differ(lab: Lab) -> Iterator[Finding]:
    seen: set[str] = set()
    for name, path in _hosts(lab):
        if name in seen:
            yield (*path, "name"), f'two hosts are called "{name}"'
        seen.add(name)


def _hosts(lab: Lab) -> Iterator[tuple[str, Path]]:
    for node in lab.nodes:
        yield node.name, (*_SPEC, "nodes", f"name={node.name}")
    for index, client in enumerate(lab.clients):
        yield client.name, (*_SPEC, "clients", index)


def _addresses_fit(lab: Lab) -> Iterator[Finding]:
    owner = {lab.gateway: "the underlay's gateway"}
    unusable = (lab.underlay.network_address, lab.underlay.broadcast_address)
    if lab.underlay.prefixlen > SMALLEST_UNDERLAY:
        yield (*_SPEC, "underlay"), f"{lab.underlay} is too small; /{SMALLEST_UNDERLAY} or wider"
        return
    hosts: list[Node | Client] = [*lab.nodes, *lab.clients]
    for host, (_, path) in zip(hosts, _hosts(lab), strict=True):
        at = (*path, "address")
        if host.address not in lab.underlay or host.address in unusable:
            yield at, f"{host.address} is no usable address of the underlay {lab.underlay}"
        elif host.address in owner:
            yield at, f"{host.address} already belongs to {owner[host.address]}"
        owner.setdefault(host.address, host.name)


def _networks_are_apart(lab: Lab) -> Iterator[Finding]:
    networks = {
        "underlay": lab.underlay,
        "podCIDR": lab.pod_cidr,
        "serviceCIDR": lab.service_cidr,
    }
    for (one, a), (other, b) in combinations(networks.items(), 2):
        if a.overlaps(b):
            yield (*_SPEC, other), f"{other} {b} overlaps {one} {a}"


def _subnets_fit(lab: Lab) -> Iterator[Finding]:
    if lab.subnet_len < lab.pod_cidr.prefixlen + 1:
        yield (
            (*_SPEC, "subnetLen"),
            f"/{lab.subnet_len} subnets do not fit into podCIDR {lab.pod_cidr}",
        )
        return
    # flannel begins at the network's second subnet unless SubnetMin says otherwise.
    room = 2 ** (lab.subnet_len - lab.pod_cidr.prefixlen)
    if len(lab.nodes) > room - 1:
        text = f"podCIDR {lab.pod_cidr} has {room - 1} subnets of /{lab.subnet_len}"
        yield (*_SPEC, "podCIDR"), f"{text}, the lab has {len(lab.nodes)} nodes"
    yield from _pinned_subnets(lab)


def _pinned_subnets(lab: Lab) -> Iterator[Finding]:
    pinned = [(node, node.subnet) for node in lab.nodes if node.subnet]
    for node, subnet in pinned:
        at = (*_SPEC, "nodes", f"name={node.name}", "subnet")
        if not subnet.subnet_of(lab.pod_cidr):
            yield at, f"{subnet} is not inside podCIDR {lab.pod_cidr}"
        elif subnet.prefixlen != lab.subnet_len:
            yield at, f"{subnet} is not a /{lab.subnet_len}, as subnetLen has it"
    for (one, a), (other, b) in combinations(pinned, 2):
        if a.overlaps(b):
            at = (*_SPEC, "nodes", f"name={other.name}", "subnet")
            yield at, f"{b} overlaps {one.name}'s subnet {a}"


def _range_starts_fit(lab: Lab) -> Iterator[Finding]:
    for node in lab.nodes:
        if node.range_start is None:
            continue
        at = (*_SPEC, "nodes", f"name={node.name}", "rangeStart")
        if node.subnet is None:
            yield at, "rangeStart needs a subnet beside it"
        elif node.range_start not in node.subnet or node.range_start <= node.subnet[1]:
            yield at, f"{node.range_start} is no pod address of {node.subnet}"


def _service_pins_fit(lab: Lab) -> Iterator[Finding]:
    owner = {lab.service_cidr[1]: "the Service default/kubernetes"}
    for key, address in lab.pins.services.items():
        at = (*_SPEC, "pins", "services", key)
        yield from _owner_name(at, key)
        if address not in lab.service_cidr or address in (
            lab.service_cidr[0],
            lab.service_cidr[-1],
        ):
            yield at, f"{address} is no address of serviceCIDR {lab.service_cidr}"
        elif address in owner:
            yield at, f"{address} is already kept for {owner[address]}"
        owner.setdefault(address, key)


def _pod_pins_fit(lab: Lab) -> Iterator[Finding]:
    owner: dict[object, str] = {}
    subnets = {node.subnet for node in lab.nodes if node.subnet}
    for key, addresses in lab.pins.pods.items():
        yield from _owner_name((*_SPEC, "pins", "pods", key), key)
        for index, address in enumerate(addresses):
            at = (*_SPEC, "pins", "pods", key, index)
            home = next((net for net in subnets if address in net), None)
            if home is None:
                yield at, f"{address} is in no node's subnet; give a node the subnet that holds it"
            elif address in (home[0], home[1], home[-1]):
                yield at, f"{address} is the network, gateway or broadcast address of {home}"
            elif address in owner:
                yield at, f"{address} is already kept for {owner[address]}"
            owner.setdefault(address, key)


def _owner_name(at: Path, key: str) -> Iterator[Finding]:
    if key.count("/") != 1 or key.startswith("/") or key.endswith("/"):
        yield at, f'"{key}" must be namespace/name'


def _port_range_fits(lab: Lab) -> Iterator[Finding]:
    low, high = lab.node_port_range
    if not 1 <= low <= high <= 65535:
        yield (*_SPEC, "nodePortRange"), f"{low}-{high} is no range of ports"


def _workers_exist(lab: Lab) -> Iterator[Finding]:
    if len(lab.nodes) == 1:
        yield (*_SPEC, "nodes"), "a lab needs a worker beside its control plane"


_RULES: Iterable[Rule] = (
    _one_control_plane,
    _workers_exist,
    _host_names_differ,
    _addresses_fit,
    _networks_are_apart,
    _subnets_fit,
    _range_starts_fit,
    _service_pins_fit,
    _pod_pins_fit,
    _port_range_fits,
)
