"""The Kubernetes objects of a scenario: identity checked here, the rest by the API server.

A scenario's manifests are what one would hand to ``kubectl apply -f``. Before anything
starts, labnet makes sure that each can be addressed (apiVersion, kind, a valid name),
that none stands there twice, and that no two Services ask for the same node port or
virtual IP: such a file would fail halfway through ``labnet up``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import AddressValueError, IPv4Address

from labnet.scenario.model import Lab
from labnet.scenario.problems import Place, Problems
from labnet.scenario.yaml import Located


def flattened(documents: Iterable[Located]) -> Iterator[Located]:
    """Yield the objects, taking ``kind: List`` apart as kubectl does."""
    for document in documents:
        items = document.get("items")
        kind = document.get("kind")
        if kind and kind.value == "List" and items and isinstance(items.value, list):
            yield from flattened(items.value)
        else:
            yield document


def check(objects: Iterable[Located], problems: Problems) -> list[Located]:
    """Add what makes an object impossible to address, or a second one; return the rest."""
    seen: dict[tuple[str, ...], Place] = {}
    addressable = []
    for one in objects:
        identity = _identity(one, problems)
        if identity is None:
            continue
        addressable.append(one)
        if identity in seen:
            _, kind, namespace, name = identity
            problems.add(
                one.place, f"{kind} {namespace}/{name} is already in line {seen[identity].line}"
            )
        seen.setdefault(identity, one.place)
    return addressable


def _identity(one: Located, problems: Problems) -> tuple[str, ...] | None:
    if not isinstance(one.value, dict):
        problems.add(one.place, "a manifest must be a mapping with apiVersion, kind and metadata")
        return None
    words = [_word(one, problems, "apiVersion"), _word(one, problems, "kind")]
    name = _word(one, problems, "metadata", "name")
    if not all((*words, name)):
        return None
    namespace = one.get("metadata", "namespace")
    where = str(namespace.value) if namespace else "default"
    return words[0].partition("/")[0], words[1], where, name


def _word(one: Located, problems: Problems, *path: str) -> str:
    found = one.get(*path)
    if found is None or found.value in (None, ""):
        problems.add(one.place, f"the manifest has no {'.'.join(path)}")
        return ""
    if not isinstance(found.value, str):
        problems.add(found.place, f"{'.'.join(path)} must be text; put it in quotes")
        return ""
    return found.value


def check_services(objects: Iterable[Located], lab: Lab, problems: Problems) -> None:
    """Add node ports and virtual IPs that are out of range or asked for twice."""
    owner: dict[object, str] = {ip: key for key, ip in lab.pins.services.items()}
    for one in objects:
        kind = one.get("kind")
        if kind is None or kind.value != "Service":
            continue
        key = _key(one)
        for at, value, message in _claims(one, lab):
            if message:
                problems.add(at.place, message)
            elif owner.setdefault(value, key) != key:
                problems.add(at.place, f"{value} is already taken by Service {owner[value]}")


def _claims(one: Located, lab: Lab) -> Iterator[tuple[Located, object, str]]:
    low, high = lab.node_port_range
    ports = one.get("spec", "ports")
    for port in ports.value if ports and isinstance(ports.value, list) else []:
        at = port.get("nodePort")
        if at and isinstance(at.value, int):
            protocol = port.get("protocol")
            word = f"node port {at.value}/{protocol.value if protocol else 'TCP'}"
            bad = "" if low <= at.value <= high else f"{word} is outside {low}-{high}"
            yield at, word, bad
    at = one.get("spec", "clusterIP")
    if at and isinstance(at.value, str) and at.value not in ("None", ""):
        yield at, _address(at.value), ""


def _address(text: str) -> object:
    try:
        return IPv4Address(text)
    except AddressValueError:
        return text  # the API server's message for it is the better one


def _key(one: Located) -> str:
    name, namespace = one.get("metadata", "name"), one.get("metadata", "namespace")
    return f"{namespace.value if namespace else 'default'}/{name.value if name else ''}"
