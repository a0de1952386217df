"""What is wrong with a pod, or with the pods a template describes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from labnet.api import field, names
from labnet.api.meta import Object
from labnet.api.status import Cause
from labnet.api.validation_network import PROTOCOLS

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL = ("Always", "IfNotPresent", "Never")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_WAYS = ("exec", "httpGet", "tcpSocket", "grpc")
_PROBE_COUNTS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def pod(obj: Object) -> list[Cause]:
    """Return what is wrong with a Pod."""
    return pod_spec("spec", obj.get("spec") or {})


def pod_spec(path: str, spec: Object) -> list[Cause]:
    """Return what is wrong with a PodSpec that stands at ``path``."""
    found = _volumes(f"{path}.volumes", spec.get("volumes") or ())
    volumes = {v.get("name") for v in spec.get("volumes") or ()}
    if not spec.get("containers"):
        found.append(field.required(f"{path}.containers"))
    found += _containers(path, spec, volumes)
    found += field.one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART)
    found += field.one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS)
    if spec.get("hostname"):
        found += names.problems(f"{path}.hostname", spec["hostname"], names.label(spec["hostname"]))
    grace = spec.get("terminationGracePeriodSeconds", 30)
    found += field.non_negative(f"{path}.terminationGracePeriodSeconds", grace)
    if spec.get("hostNetwork"):
        found += _host_ports(path, spec)
    return found


def _containers(path: str, spec: Object, volumes: set[Any]) -> list[Cause]:
    found: list[Cause] = []
    taken: set[str] = set()
    for group in ("containers", "initContainers"):
        for n, container in enumerate(spec.get(group) or ()):
            at = f"{path}.{group}[{n}]"
            found += _container(at, container, volumes)
            name = container.get("name")
            if name in taken:
                found.append(field.duplicate(f"{at}.name", name))
            taken.add(name)
    return found


def _container(path: str, container: Object, volumes: set[Any]) -> list[Cause]:
    found = _named(f"{path}.name", container.get("name", ""))
    if not container.get("image"):
        found.append(field.required(f"{path}.image"))
    found += field.one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL)
    found += _ports(f"{path}.ports", container.get("ports") or ())
    for n, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            found.append(field.required(f"{path}.env[{n}].name"))
        if variable.get("value") and variable.get("valueFrom"):
            rule = "may not be specified when `value` is not empty"
            found.append(field.invalid(f"{path}.env[{n}].valueFrom", "", rule))
    for n, mount in enumerate(container.get("volumeMounts") or ()):
        found += _mount(f"{path}.volumeMounts[{n}]", mount, volumes)
    for name in _PROBES:
        if container.get(name) is not None:
            found += _probe(f"{path}.{name}", container[name], once=name != "readinessProbe")
    return found


def _named(path: str, name: str) -> list[Cause]:
    if not name:
        return [field.required(path)]
    return names.problems(path, name, names.label(name))


def _ports(path: str, ports: Iterable[Object]) -> list[Cause]:
    found: list[Cause] = []
    taken: set[str] = set()
    for n, port in enumerate(ports):
        at, name = f"{path}[{n}]", port.get("name")
        if name:
            found += names.problems(f"{at}.name", name, names.port_name(name))
            if name in taken:
                found.append(field.duplicate(f"{at}.name", name))
            taken.add(name)
        if not port.get("containerPort"):
            found.append(field.required(f"{at}.containerPort"))
        else:
            found += field.port(f"{at}.containerPort", port["containerPort"])
        if port.get("hostPort"):
            found += field.port(f"{at}.hostPort", port["hostPort"])
        found += field.one_of(f"{at}.protocol", port.get("protocol"), PROTOCOLS)
    return found


def _mount(path: str, mount: Object, volumes: set[Any]) -> list[Cause]:
    found: list[Cause] = []
    if not mount.get("name"):
        found.append(field.required(f"{path}.name"))
    elif mount["name"] not in volumes:
        found.append(field.not_found(f"{path}.name", mount["name"]))
    if not mount.get("mountPath"):
        found.append(field.required(f"{path}.mountPath"))
    return found


def _probe(path: str, probe: Object, *, once: bool) -> list[Cause]:
    ways = [way for way in _PROBE_WAYS if probe.get(way) is not None]
    found: list[Cause] = []
    if not ways:
        found.append(field.required(path, "must specify a handler type"))
    for way in ways[1:]:
        found.append(field.forbidden(f"{path}.{way}", "may not specify more than 1 handler type"))
    for count in _PROBE_COUNTS:
        found += field.non_negative(f"{path}.{count}", probe.get(count, 0))
    if once and probe.get("successThreshold", 1) != 1:
        found.append(
            field.invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")
        )
    for way in ("httpGet", "tcpSocket"):
        if isinstance(probe.get(way), dict):
            found += _probe_port(f"{path}.{way}.port", probe[way].get("port", 0))
    return found


def _probe_port(path: str, port: int | str) -> list[Cause]:
    if isinstance(port, int):
        return field.port(path, port)
    return names.problems(path, port, names.port_name(port))


def _volumes(path: str, volumes: Iterable[Object]) -> list[Cause]:
    found: list[Cause] = []
    taken: set[str] = set()
    for n, volume in enumerate(volumes):
        name = volume.get("name", "")
        found += _named(f"{path}[{n}].name", name)
        if name in taken:
            found.append(field.duplicate(f"{path}[{n}].name", name))
        taken.add(name)
        sources = [key for key in volume if key != "name"]
        for source in sources[1:]:
            rule = "may not specify more than 1 volume type"
            found.append(field.forbidden(f"{path}[{n}].{source}", rule))
    return found


def _host_ports(path: str, spec: Object) -> list[Cause]:
    """In the node's network a port is the node's: both numbers have to agree."""
    rule = "must match `containerPort` when `hostNetwork` is true"
    return [
        field.invalid(f"{path}.containers[{n}].ports[{m}].hostPort", port["hostPort"], rule)
        for n, container in enumerate(spec.get("containers") or ())
        for m, port in enumerate(container.get("ports") or ())
        if port.get("hostPort") not in (None, port.get("containerPort"))
    ]


_FIXED = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)


def pod_update(old: Object, new: Object) -> list[Cause]:
    """Return what an update of a Pod may not change: nearly everything in its spec."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if before == after:
        return []
    kept = after.get("tolerations") or []
    if any(t not in kept for t in before.get("tolerations") or ()):
        rule = "existing toleration can not be modified except its tolerationSeconds"
        return [field.forbidden("spec.tolerations", rule)]
    if _fixed(before) != _fixed(after):
        return [field.forbidden("spec", _FIXED)]
    return []


def _fixed(spec: Object) -> Object:
    """Return what of a PodSpec may never change."""
    out = {k: v for k, v in spec.items() if k not in ("tolerations", "activeDeadlineSeconds")}
    for group in ("containers", "initContainers"):
        if group in out:
            out[group] = [{k: v for k, v in c.items() if k != "image"} for c in out[group]]
    return out
