"""The table of kinds. One entry is all a new kind needs (and its columns, in ``columns``).

Storage paths are those of a real API server, so ``etcdctl get --prefix /registry`` shows
what it shows in life: nodes under their first name, *minions*, Services and their
Endpoints side by side. The order of groups is the order of preference.
"""

from __future__ import annotations

from functools import partial

from labnet.api.resource import Resource, Subresource

_READ_WRITE = ("get", "patch", "update")
_STATUS = Subresource("status", _READ_WRITE)
_SCALE = Subresource("scale", _READ_WRITE, "autoscaling", "v1", "Scale")
_NO_COLLECTION = ("create", "delete", "get", "list", "patch", "update", "watch")

_core = partial(Resource, "", "v1")
_apps = partial(Resource, "apps", "v1", generation=True)
_batch = partial(Resource, "batch", "v1", generation=True, categories=("all",))
_net = partial(Resource, "networking.k8s.io", "v1", generation=True)
_beta = partial(Resource, "extensions", "v1beta1", generation=True, hub="apps/v1")
_review = partial(Resource, namespaced=False, verbs=("create",))

_POD_SUBRESOURCES = (
    Subresource("attach", ("create", "get"), kind="PodAttachOptions", version="v1"),
    Subresource("binding", ("create",), kind="Binding", version="v1"),
    Subresource("eviction", ("create",), "policy", "v1", "Eviction"),
    Subresource("exec", ("create", "get"), kind="PodExecOptions", version="v1"),
    Subresource("log", ("get",)),
    _STATUS,
)
_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = (
    *(f"involvedObject.{field}" for field in _REFERENCE),
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_NEW_EVENT_FIELDS = (
    *(f"regarding.{field}" for field in _REFERENCE),
    "reason",
    "reportingController",
    "type",
)

KINDS: tuple[Resource, ...] = (
    _core("ConfigMap", "configmaps", short_names=("cm",), storage="configmaps"),
    _core("Endpoints", "endpoints", short_names=("ep",), storage="services/endpoints"),
    _core("Event", "events", short_names=("ev",), storage="events", field_labels=_EVENT_FIELDS),
    _core("LimitRange", "limitranges", short_names=("limits",), storage="limitranges"),
    _core(
        "Namespace",
        "namespaces",
        namespaced=False,
        short_names=("ns",),
        verbs=_NO_COLLECTION,
        subresources=(Subresource("finalize", ("update",)), _STATUS),
        storage="namespaces",
        field_labels=("status.phase",),
    ),
    _core(
        "Node",
        "nodes",
        namespaced=False,
        short_names=("no",),
        subresources=(_STATUS,),
        storage="minions",
        field_labels=("spec.unschedulable",),
    ),
    _core(
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        short_names=("pvc",),
        subresources=(_STATUS,),
        storage="persistentvolumeclaims",
    ),
    _core(
        "PersistentVolume",
        "persistentvolumes",
        namespaced=False,
        short_names=("pv",),
        subresources=(_STATUS,),
        storage="persistentvolumes",
    ),
    _core(
        "Pod",
        "pods",
        short_names=("po",),
        categories=("all",),
        subresources=_POD_SUBRESOURCES,
        storage="pods",
        field_labels=_POD_FIELDS,
        graceful=True,
        generation=True,
    ),
    _core(
        "ReplicationController",
        "replicationcontrollers",
        short_names=("rc",),
        categories=("all",),
        subresources=(_SCALE, _STATUS),
        storage="controllers",
        field_labels=("status.replicas",),
        generation=True,
    ),
    _core(
        "ResourceQuota",
        "resourcequotas",
        short_names=("quota",),
        subresources=(_STATUS,),
        storage="resourcequotas",
    ),
    _core("Secret", "secrets", storage="secrets", field_labels=("type",)),
    _core("ServiceAccount", "serviceaccounts", short_names=("sa",), storage="serviceaccounts"),
    _core(
        "Service",
        "services",
        short_names=("svc",),
        categories=("all",),
        subresources=(_STATUS,),
        storage="services/specs",
        field_labels=("spec.clusterIP", "spec.type"),
    ),
    _apps(
        "DaemonSet",
        "daemonsets",
        short_names=("ds",),
        categories=("all",),
        subresources=(_STATUS,),
        storage="daemonsets",
    ),
    _apps(
        "Deployment",
        "deployments",
        short_names=("deploy",),
        categories=("all",),
        subresources=(_SCALE, _STATUS),
        storage="deployments",
    ),
    _apps(
        "ReplicaSet",
        "replicasets",
        short_names=("rs",),
        categories=("all",),
        subresources=(_SCALE, _STATUS),
        storage="replicasets",
        field_labels=("status.replicas",),
    ),
    _apps(
        "StatefulSet",
        "statefulsets",
        short_names=("sts",),
        categories=("all",),
        subresources=(_SCALE, _STATUS),
        storage="statefulsets",
    ),
    Resource(
        "events.k8s.io",
        "v1",
        "Event",
        "events",
        short_names=("ev",),
        storage="events",
        hub="v1",
        field_labels=_NEW_EVENT_FIELDS,
    ),
    _review("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews"),
    _review("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    _review("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    _review("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews"),
    _batch("CronJob", "cronjobs", short_names=("cj",), subresources=(_STATUS,), storage="cronjobs"),
    _batch(
        "Job",
        "jobs",
        subresources=(_STATUS,),
        storage="jobs",
        field_labels=("status.successful",),
    ),
    _net("Ingress", "ingresses", short_names=("ing",), subresources=(_STATUS,), storage="ingress"),
    _net("NetworkPolicy", "networkpolicies", short_names=("netpol",), storage="networkpolicies"),
    Resource(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        short_names=("pdb",),
        subresources=(_STATUS,),
        storage="poddisruptionbudgets",
        generation=True,
    ),
    Resource("coordination.k8s.io", "v1", "Lease", "leases", storage="leases"),
    Resource(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        storage="endpointslices",
        generation=True,
    ),
    # Without short names and categories: `kubectl get deploy` and `get all` mean apps/v1.
    _beta("Deployment", "deployments", subresources=(_SCALE, _STATUS), storage="deployments"),
    _beta("ReplicaSet", "replicasets", subresources=(_SCALE, _STATUS), storage="replicasets"),
)
