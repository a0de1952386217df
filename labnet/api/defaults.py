"""Defaults: what a client left out and everybody else relies on.

A manifest says little; an object as the API server shows it says everything. Consumers
read ``spec.type`` of a Service without asking whether it is there, and kubectl 1.37
crashes without ``spec.securityContext`` in a pod. The published schema has no defaults,
so they stand here, as in ``pkg/apis/*/v1/defaults.go``. Each function changes the object
it is given, in the version it is written in, and a second call changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from labnet.api.defaults_pod import pod, template
from labnet.api.meta import Object
from labnet.api.resource import Resource

# "Unlimited", as extensions/v1beta1 meant it when it left the field out.
_MAX_INT32 = 2147483647


def apply(resource: Resource, obj: Object) -> None:
    """Fill in the defaults of ``obj``, in place."""
    setter = _SETTERS.get((resource.group, resource.kind))
    if setter is not None:
        setter(obj)


def _spec(obj: Object) -> Object:
    spec: Object = obj.setdefault("spec", {})
    return spec


def _pod(obj: Object) -> None:
    pod(_spec(obj))


def _rolling(strategy: Object, limits: Object) -> None:
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        for name, value in limits.items():
            rolling.setdefault(name, value)


def _deployment(obj: Object) -> None:
    spec = _spec(obj)
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    _rolling(spec.setdefault("strategy", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})
    template(spec)


def _old_deployment(obj: Object) -> None:
    """The defaults of extensions/v1beta1, which the articles' manifests count on."""
    spec = _spec(obj)
    _labels_from_template(obj, {"matchLabels": dict(_template_labels(spec))})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", _MAX_INT32)
    spec.setdefault("progressDeadlineSeconds", _MAX_INT32)
    _rolling(spec.setdefault("strategy", {}), {"maxUnavailable": 1, "maxSurge": 1})
    template(spec)


def _template_labels(spec: Object) -> Object:
    metadata = (spec.get("template") or {}).get("metadata") or {}
    return metadata.get("labels") or {}


def _labels_from_template(obj: Object, selector: Object) -> None:
    """Take selector and labels from the pods' labels where the object has none."""
    spec = _spec(obj)
    labels = _template_labels(spec)
    if labels:
        spec.setdefault("selector", selector)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


def _replica_set(obj: Object) -> None:
    _spec(obj).setdefault("replicas", 1)
    template(_spec(obj))


def _old_replica_set(obj: Object) -> None:
    _labels_from_template(obj, {"matchLabels": dict(_template_labels(_spec(obj)))})
    _replica_set(obj)


def _replication_controller(obj: Object) -> None:
    _labels_from_template(obj, dict(_template_labels(_spec(obj))))
    _replica_set(obj)


def _daemon_set(obj: Object) -> None:
    spec = _spec(obj)
    spec.setdefault("revisionHistoryLimit", 10)
    _rolling(spec.setdefault("updateStrategy", {}), {"maxUnavailable": 1, "maxSurge": 0})
    template(spec)


def _stateful_set(obj: Object) -> None:
    spec = _spec(obj)
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    _rolling(spec.setdefault("updateStrategy", {}), {"partition": 0})
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    template(spec)


def _job(obj: Object) -> None:
    _job_spec(_spec(obj))
    if not obj["metadata"].get("labels"):
        labels = _template_labels(_spec(obj))
        if labels:
            obj["metadata"]["labels"] = dict(labels)


def _job_spec(spec: Object) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    template(spec)


def _cron_job(obj: Object) -> None:
    spec = _spec(obj)
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template_spec = (spec.get("jobTemplate") or {}).get("spec")
    if template_spec is not None:
        template(template_spec)


def _service(obj: Object) -> None:
    spec = _spec(obj)
    kind = spec.setdefault("type", "ClusterIP")
    if spec.setdefault("sessionAffinity", "None") == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, "") and "port" in port:
            port["targetPort"] = port["port"]
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    _mirror_cluster_ip(spec)


def _mirror_cluster_ip(spec: Object) -> None:
    """``clusterIP`` is the first of ``clusterIPs``; either may be written alone."""
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    elif spec.get("clusterIPs"):
        spec["clusterIP"] = spec["clusterIPs"][0]


def _namespace(obj: Object) -> None:
    metadata = obj["metadata"]
    if metadata.get("name"):
        labels = metadata.setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = metadata["name"]


def _secret(obj: Object) -> None:
    obj.setdefault("type", "Opaque")


def _endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _endpoint_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _network_policy(obj: Object) -> None:
    spec = _spec(obj)
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _claim(obj: Object) -> None:
    _spec(obj).setdefault("volumeMode", "Filesystem")


def _volume(obj: Object) -> None:
    _spec(obj).setdefault("persistentVolumeReclaimPolicy", "Retain")
    _claim(obj)


_SETTERS: dict[tuple[str, str], Callable[[Object], None]] = {
    ("", "Endpoints"): _endpoints,
    ("", "Namespace"): _namespace,
    ("", "PersistentVolume"): _volume,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Pod"): _pod,
    ("", "ReplicationController"): _replication_controller,
    ("", "Secret"): _secret,
    ("", "Service"): _service,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "CronJob"): _cron_job,
    ("batch", "Job"): _job,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("extensions", "Deployment"): _old_deployment,
    ("extensions", "ReplicaSet"): _old_replica_set,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
}
