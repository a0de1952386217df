"""A container's environment: the image's variables, the pod's, and what they refer to.

``$(NAME)`` in a value, a command or its arguments is replaced by a variable defined
*before* it; ``$$`` is a dollar, and a name that is not there stays as it is written
(kubernetes ``third_party/forked/golang/expansion``). ``KUBERNETES_SERVICE_HOST`` and
the other variables per Service are not set: they would be a snapshot of what happened
to exist when the pod started.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address

from labnet.sandbox.pod import EnvVar, Pod
from labnet.sandbox.security import Refused

_VARIABLE = re.compile(r"\$(\$|\(([^()]*)\))")
_LABEL = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]$")

# ("configmap" or "secret", name) → its data; a name that is not there is absent.
Sources = Mapping[tuple[str, str], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Facts:
    """What ``fieldRef`` can name beyond the pod's own metadata."""

    node: str
    node_address: IPv4Address
    pod_address: IPv4Address


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Return ``text`` with each ``$(NAME)`` that is known replaced."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return variables.get(match[2], match[0])

    return _VARIABLE.sub(value, text)


def environment(
    pod: Pod,
    declared: tuple[EnvVar, ...],
    base: tuple[tuple[str, str], ...],
    facts: Facts,
    sources: Sources,
) -> dict[str, str]:
    """Return the variables of a container, later ones over earlier. Raises ``Refused``."""
    variables = dict(base)
    variables["HOSTNAME"] = facts.node if pod.host_network else pod.hostname
    variables["LABNET_NODE"] = facts.node
    for variable in declared:
        variables.update(_resolved(pod, variable, variables, facts, sources))
    return variables


def _resolved(
    pod: Pod, variable: EnvVar, so_far: Mapping[str, str], facts: Facts, sources: Sources
) -> Mapping[str, str]:
    if variable.unsupported:
        raise Refused(f"env {variable.name}: valueFrom.{variable.unsupported} is not supported")
    if variable.field:
        return {variable.name: field(pod, variable.field, facts)}
    if variable.source:
        return _from_source(variable, sources)
    return {variable.name: expand(variable.value, so_far)}


def _from_source(variable: EnvVar, sources: Sources) -> Mapping[str, str]:
    data = sources.get((variable.source, variable.source_name))
    if data is None and not variable.optional:
        raise Refused(f'{variable.source} "{variable.source_name}" not found')
    if not variable.key:
        return {variable.name + key: value for key, value in (data or {}).items()}
    if variable.key in (data or {}):
        return {variable.name: (data or {})[variable.key]}
    if variable.optional:
        return {}
    raise Refused(f"couldn't find key {variable.key} in {variable.source} {variable.source_name}")


def field(pod: Pod, path: str, facts: Facts) -> str:
    """Return what ``fieldRef.fieldPath`` names. Raises ``Refused``."""
    if match := _LABEL.match(path):
        return (pod.labels if match[1] == "labels" else pod.annotations).get(match[2], "")
    known = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": facts.node,
        "spec.serviceAccountName": pod.service_account,
        "status.hostIP": str(facts.node_address),
        "status.hostIPs": str(facts.node_address),
        "status.podIP": str(facts.pod_address),
        "status.podIPs": str(facts.pod_address),
    }
    if path not in known:
        raise Refused(f"fieldPath {path!r} is not supported; known: {', '.join(known)}")
    return known[path]
