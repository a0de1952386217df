"""The kinds of object that labnet's own loops read and write, by name."""

from __future__ import annotations

from labnet.api.resource import Resource
from labnet.api.resources import find


def _kind(group: str, version: str, plural: str) -> Resource:
    found = find(group, version, plural)
    if found is None:
        raise LookupError(f"the API has no {plural} in {group}/{version}")
    return found


CONFIGMAPS = _kind("", "v1", "configmaps")
ENDPOINTS = _kind("", "v1", "endpoints")
EVENTS = _kind("", "v1", "events")
NAMESPACES = _kind("", "v1", "namespaces")
NODES = _kind("", "v1", "nodes")
PODS = _kind("", "v1", "pods")
SERVICE_ACCOUNTS = _kind("", "v1", "serviceaccounts")
SERVICES = _kind("", "v1", "services")
DEPLOYMENTS = _kind("apps", "v1", "deployments")
REPLICA_SETS = _kind("apps", "v1", "replicasets")
LEASES = _kind("coordination.k8s.io", "v1", "leases")
ENDPOINT_SLICES = _kind("discovery.k8s.io", "v1", "endpointslices")

NODE_LEASES = "kube-node-lease"  # the namespace in which each node renews its lease
