"""Cluster IPs and node ports: handed out once, whoever asks at the same time.

An address in use is a key, ``/registry/ranges/serviceips/10.11.97.177``, whose value
names its Service. It is created in the very transaction that writes the Service, under
the condition that it does not exist, and deleted in the one that deletes it: etcd, not
this process, makes sure that no two Services get the same. As in Kubernetes, free ones
are drawn at random from the upper part of a range, so that the lower part is left to
those who choose themselves. A *pinned* address is given to its Service alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from itertools import chain
from random import Random

from labnet.api import services
from labnet.api.meta import Object
from labnet.api.status import ApiError, Cause, internal_error, invalid
from labnet.store.model import Delete, ModRevisionIs, Put

IP_PREFIX = "/registry/ranges/serviceips/"
PORT_PREFIX = "/registry/ranges/servicenodeports/"


@dataclass(frozen=True, slots=True)
class Ranges:
    """What there is to hand out, and what is kept for whom (``namespace/name`` → address)."""

    service_cidr: IPv4Network
    node_ports: tuple[int, int]  # first and last
    pins: Mapping[str, IPv4Address] = field(default_factory=dict)

    @property
    def first_address(self) -> IPv4Address:
        """The address of Service ``default/kubernetes``."""
        return self.service_cidr[1]


@dataclass(frozen=True, slots=True)
class Claim:
    """What one write of a Service takes and gives back: part of its transaction."""

    take: tuple[str, ...] = ()
    release: tuple[str, ...] = ()

    def conditions(self) -> list[ModRevisionIs]:
        """That nobody has what is taken."""
        return [ModRevisionIs(key, 0) for key in self.take]

    def writes(self, owner: str) -> list[Put | Delete]:
        """Take and release, for ``owner`` (``namespace/name``)."""
        taken: list[Put | Delete] = [Put(key, owner.encode()) for key in self.take]
        return taken + [Delete(key) for key in self.release]


def held(service: Object | None) -> dict[str, str]:
    """Return the keys a Service holds, each with the field that names it."""
    if service is None:
        return {}
    spec = service.get("spec") or {}
    found: dict[str, str] = {}
    if spec.get("type") != "ExternalName":
        addresses = spec.get("clusterIPs") or [spec.get("clusterIP", "")]
        for address in addresses:
            if address not in ("", "None"):
                found[f"{IP_PREFIX}{address}"] = "spec.clusterIPs"
    for n, port in enumerate(spec.get("ports") or ()):
        if port.get("nodePort"):
            found.setdefault(f"{PORT_PREFIX}{port['nodePort']}", f"spec.ports[{n}].nodePort")
    return found


def claim(
    ranges: Ranges, service: Object, old: Object | None, used: Container[str], random: Random
) -> Claim:
    """Give ``service``, in place, what it still needs; return what that takes.

    ``used`` are the keys taken already. Raises ApiError 422 for an address asked for
    that cannot be had, 500 when a range is full.
    """
    before = held(old)
    _check_asked(ranges, service, before, used)
    _give_address(ranges, service, used, random)
    _give_ports(ranges, service, used, random)
    after = held(service)
    return Claim(
        tuple(key for key in after if key not in before),
        tuple(key for key in before if key not in after),
    )


def _owner(service: Object) -> str:
    return f"{service['metadata']['namespace']}/{service['metadata']['name']}"


def _check_asked(
    ranges: Ranges, service: Object, before: Collection[str], used: Container[str]
) -> None:
    for key, name in held(service).items():
        if key in before:
            continue
        text = key.rpartition("/")[2]
        why = (
            _refused_address(ranges, service, key, used)
            if key.startswith(IP_PREFIX)
            else (_refused_port(ranges, key, used))
        )
        if not why:
            continue
        value = f'["{text}"]: failed to allocate IP {text}' if "IP" in name else text
        raise _invalid(service, name, f"Invalid value: {value}: {why}")


def _invalid(service: Object, name: str, why: str) -> ApiError:
    cause = Cause("FieldValueInvalid", why, name)
    return invalid("", "Service", service["metadata"]["name"], [cause])


def _refused_address(ranges: Ranges, service: Object, key: str, used: Container[str]) -> str:
    try:
        address = IPv4Address(key[len(IP_PREFIX) :])
    except ValueError:
        return "must be a valid IPv4 address"
    cidr = ranges.service_cidr
    if address not in cidr or address in (cidr.network_address, cidr.broadcast_address):
        return (
            f"the provided IP ({address}) is not in the valid range. "
            f"The range of valid IPs is {cidr}"
        )
    pinned_for = next((who for who, pin in ranges.pins.items() if pin == address), "")
    if key in used or pinned_for not in ("", _owner(service)):
        return "provided IP is already allocated"
    return ""


def _refused_port(ranges: Ranges, key: str, used: Container[str]) -> str:
    first, last = ranges.node_ports
    if not first <= int(key[len(PORT_PREFIX) :]) <= last:
        return (
            f"provided port is not in the valid range. The range of valid ports is {first}-{last}"
        )
    return "provided port is already allocated" if key in used else ""


def _give_address(ranges: Ranges, service: Object, used: Container[str], random: Random) -> None:
    if not services.needs_cluster_ip(service):
        return
    pinned = ranges.pins.get(_owner(service))
    if pinned is not None:
        key = f"{IP_PREFIX}{pinned}"
        if key in used:
            why = f'Invalid value: ["{pinned}"]: failed to allocate IP {pinned}: '
            raise _invalid(service, "spec.clusterIPs", f"{why}provided IP is already allocated")
        services.with_cluster_ip(service, str(pinned))
        return
    base, size = int(ranges.service_cidr.network_address), ranges.service_cidr.num_addresses
    pins = {int(pin) for pin in ranges.pins.values()}

    def free(offset: int) -> bool:
        address = base + offset
        return address not in pins and f"{IP_PREFIX}{IPv4Address(address)}" not in used

    offset = _draw(range(1, size - 1), min(max(16, size // 16), 256), free, random)
    if offset is None:
        raise internal_error("failed to allocate a serviceIP: range is full")
    services.with_cluster_ip(service, str(IPv4Address(base + offset)))


def _give_ports(ranges: Ranges, service: Object, used: Container[str], random: Random) -> None:
    first, last = ranges.node_ports
    ports = service["spec"].get("ports") or ()
    band = min(max(16, (last - first + 1) // 32), 128)

    def free(port: int) -> bool:
        own = any(p.get("nodePort") == port for p in ports)
        return not own and f"{PORT_PREFIX}{port}" not in used

    for n in services.needs_node_ports(service):
        drawn = _draw(range(first, last + 1), band, free, random)
        if drawn is None:
            raise internal_error("failed to allocate a nodePort: range is full")
        ports[n]["nodePort"] = drawn


def _draw(numbers: range, band: int, free: Callable[[int], bool], random: Random) -> int | None:
    """Return a free number, preferably not of the first ``band``; None: all are taken."""
    upper, lower = numbers[band:], numbers[:band]
    for part in (upper, lower):
        if not part:
            continue
        start = random.randrange(len(part))
        drawn = next((n for n in chain(part[start:], part[:start]) if free(n)), None)
        if drawn is not None:
            return drawn
    return None
