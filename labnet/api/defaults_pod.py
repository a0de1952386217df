"""Defaults of pods, wherever a pod is described: alone, or as a workload's template."""

from __future__ import annotations

from labnet.api.meta import Object

_MODE = 0o644  # of files that come out of ConfigMaps and Secrets: 420 in JSON
_MODED = ("configMap", "downwardAPI", "projected", "secret")


def template(spec: Object) -> None:
    """Fill in the pod template of a workload's ``spec``, in place."""
    described = spec.get("template")
    if isinstance(described, dict):
        described.setdefault("metadata", {})
        pod(described.setdefault("spec", {}))


def pod(spec: Object) -> None:
    """Fill in a PodSpec, in place."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for group in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(group) or ():
            _container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes") or ():
        _volume(volume)


def _container(container: Object, *, host_network: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", pull_policy(container.get("image", "")))
    container.setdefault("resources", {})
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and not port.get("hostPort") and "containerPort" in port:
            port["hostPort"] = port["containerPort"]
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(name), dict):
            _probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http_get(hook)
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def pull_policy(image: str) -> str:
    """Return when an image is pulled: one without a fixed tag may change, so always."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _probe(probe: Object) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    _http_get(probe)
    if isinstance(probe.get("grpc"), dict):
        probe["grpc"].setdefault("service", "")


def _http_get(holder: Object) -> None:
    request = holder.get("httpGet")
    if isinstance(request, dict):
        request.setdefault("path", "/")
        request.setdefault("scheme", "HTTP")


def _volume(volume: Object) -> None:
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}
    for kind in _MODED:
        if isinstance(volume.get(kind), dict):
            volume[kind].setdefault("defaultMode", _MODE)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")


def _requests(resources: Object) -> None:
    limits = resources.get("limits")
    if limits:
        resources["requests"] = limits | (resources.get("requests") or {})


_STAY = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]


def admit(spec: Object) -> None:
    """Fill in what admission gives to a new pod alone, never to a template, in place.

    A service account, links to services, a priority, requests where there are limits,
    and five minutes on a node that stops answering (the admission plugins
    ServiceAccount, Priority, DefaultTolerationSeconds).
    """
    account = spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", account)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        _requests(container.get("resources") or {})
    tolerations = spec.setdefault("tolerations", [])
    for toleration in _STAY:
        if not any(_covers(t, toleration["key"]) for t in tolerations):
            tolerations.append(dict(toleration))


def _covers(toleration: Object, key: object) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in (
        "NoExecute",
        None,
        "",
    )


def qos_class(spec: Object) -> str:
    """Return Guaranteed, Burstable or BestEffort, from requests and limits."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    resources = [c.get("resources") or {} for c in containers]
    if not any(r.get("requests") or r.get("limits") for r in resources):
        return "BestEffort"
    for r in resources:
        limits = r.get("limits") or {}
        if not {"cpu", "memory"} <= limits.keys():
            return "Burstable"
        if any((r.get("requests") or {}).get(n) != limits[n] for n in ("cpu", "memory")):
            return "Burstable"
    return "Guaranteed"
