"""Tables: what ``kubectl get`` prints, made on the server.

kubectl asks with ``Accept: application/json;as=Table`` and prints the cells as they
come. The columns, and the odd little rules behind the STATUS of a pod, are those of
Kubernetes' ``pkg/printers/internalversion``; see ``columns`` and its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from labnet.api import columns_core, columns_network, columns_workload, convert
from labnet.api.columns import DEFAULT, Column
from labnet.api.columns_pod import POD
from labnet.api.meta import JsonObject, Object
from labnet.api.resource import Resource

_COLUMNS: dict[str, tuple[Column, ...]] = {
    "ConfigMap": columns_core.CONFIG_MAP,
    "CronJob": columns_workload.CRON_JOB,
    "DaemonSet": columns_workload.DAEMON_SET,
    "Deployment": columns_workload.DEPLOYMENT,
    "EndpointSlice": columns_network.ENDPOINT_SLICE,
    "Endpoints": columns_network.ENDPOINTS,
    "Event": columns_core.EVENT,
    "Ingress": columns_network.INGRESS,
    "Job": columns_workload.JOB,
    "Lease": columns_core.LEASE,
    "LimitRange": columns_core.LIMIT_RANGE,
    "Namespace": columns_core.NAMESPACE,
    "NetworkPolicy": columns_network.NETWORK_POLICY,
    "Node": columns_network.NODE,
    "PersistentVolume": columns_core.VOLUME,
    "PersistentVolumeClaim": columns_core.CLAIM,
    "Pod": POD,
    "PodDisruptionBudget": columns_workload.DISRUPTION_BUDGET,
    "ReplicaSet": columns_workload.REPLICA_SET,
    "ReplicationController": columns_workload.REPLICA_SET,
    "ResourceQuota": columns_core.QUOTA,
    "Scale": columns_workload.SCALE,
    "Secret": columns_core.SECRET,
    "Service": columns_network.SERVICE,
    "ServiceAccount": columns_core.SERVICE_ACCOUNT,
    "StatefulSet": columns_workload.STATEFUL_SET,
}


def table(
    resource: Resource,
    objects: Sequence[Object],
    now: datetime,
    *,
    metadata: Mapping[str, Any] | None = None,
    include: str = "Metadata",
    columns: bool = True,
) -> JsonObject:
    """Return the Table of ``objects``.

    ``metadata`` is the list's (resourceVersion, continue, remainingItemCount);
    ``include`` the query parameter includeObject: None, Metadata or Object;
    ``columns`` False leaves the definitions out (second and later watch events).
    Scale objects are known by their kind, whatever ``resource`` is.
    """
    kind = objects[0].get("kind", resource.kind) if objects else resource.kind
    shown = _COLUMNS.get(kind, DEFAULT)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata or {}),
        "columnDefinitions": [column.definition() for column in shown] if columns else [],
        "rows": [_row(resource, obj, shown, now, include) for obj in objects],
    }


def _row(
    resource: Resource, obj: Object, shown: Sequence[Column], now: datetime, include: str
) -> JsonObject:
    read = convert.stored(resource, obj) if resource.hub else obj
    row: JsonObject = {"cells": [column.cell(read, now) for column in shown]}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = partial(obj)
    return row


def partial(obj: Object) -> JsonObject:
    """Return the PartialObjectMetadata of ``obj`` (``as=PartialObjectMetadata``)."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata") or {},
    }
