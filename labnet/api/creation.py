"""What the server itself adds to a new object, beside defaults: its first status.

Kubernetes calls this ``PrepareForCreate`` (and admission). A client cannot write these
parts of a new object; what it sent there is gone by now.
"""

from __future__ import annotations

from collections.abc import Callable

from labnet.api import defaults_pod
from labnet.api.meta import Object
from labnet.api.resource import Resource


def prepare(resource: Resource, obj: Object) -> None:
    """Complete a new object, in place."""
    preparer = _PREPARERS.get((resource.group, resource.kind))
    if preparer is not None:
        preparer(obj)
    elif resource.has_status:
        obj["status"] = {}


def _pod(obj: Object) -> None:
    spec = obj["spec"]
    defaults_pod.admit(spec)
    obj["status"] = {"phase": "Pending", "qosClass": defaults_pod.qos_class(spec)}


def _namespace(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if "kubernetes" not in spec.setdefault("finalizers", []):
        spec["finalizers"].append("kubernetes")
    obj["status"] = {"phase": "Active"}


def _balanced(obj: Object) -> None:
    obj["status"] = {"loadBalancer": {}}


def _pending(obj: Object) -> None:
    obj["status"] = {"phase": "Pending"}


def _replicas(obj: Object) -> None:
    obj["status"] = {"replicas": 0}


def _daemon_set(obj: Object) -> None:
    counts = (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
    )
    obj["status"] = dict.fromkeys(counts, 0)


def _job(obj: Object) -> None:
    """Give a Job a selector that no other Job has, after its uid."""
    obj["status"] = {}
    spec = obj["spec"]
    template = spec.get("template")
    if spec.get("manualSelector") or not isinstance(template, dict):
        return
    uid, name = obj["metadata"]["uid"], obj["metadata"].get("name", "")
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    labels["controller-uid"] = labels["batch.kubernetes.io/controller-uid"] = uid
    labels["job-name"] = labels["batch.kubernetes.io/job-name"] = name
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


_PREPARERS: dict[tuple[str, str], Callable[[Object], None]] = {
    ("", "Namespace"): _namespace,
    ("", "PersistentVolume"): _pending,
    ("", "PersistentVolumeClaim"): _pending,
    ("", "Pod"): _pod,
    ("", "ReplicationController"): _replicas,
    ("", "Service"): _balanced,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "ReplicaSet"): _replicas,
    ("apps", "StatefulSet"): _replicas,
    ("batch", "Job"): _job,
    ("extensions", "ReplicaSet"): _replicas,
    ("networking.k8s.io", "Ingress"): _balanced,
}
