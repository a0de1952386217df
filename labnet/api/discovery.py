"""Discovery: how a client learns which resources there are.

Today's clients fetch two *aggregated* documents, ``/api`` and ``/apis``; older ones and
the Python dynamic client walk the *legacy* ones: APIVersions, APIGroupList, and one
APIResourceList per group version. Both say the same: plural and short names, kind,
scope, verbs, and the subresources, each with the kind it takes and answers.
"""

from __future__ import annotations

from labnet.api.meta import JsonObject
from labnet.api.resources import Resource, Subresource, group_versions, resources_of

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def aggregated(core: bool, version: str = "v2") -> JsonObject:
    """Return the APIGroupDiscoveryList of ``/api`` (core) or ``/apis``; v2 or v2beta1."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_group_discovery(group) for group in _groups() if (group == "") == core],
    }


def api_versions(server_address: str) -> JsonObject:
    """Return the APIVersions document of ``/api``; the address is ``host:port``."""
    return {
        "kind": "APIVersions",
        "versions": _versions(""),
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}
        ],
    }


def api_group_list() -> JsonObject:
    """Return the APIGroupList document of ``/apis``."""
    groups = [_api_group(group) for group in _groups() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(group: str) -> JsonObject | None:
    """Return the APIGroup document of ``/apis/<group>``, or None."""
    if not group or group not in _groups():
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_api_group(group)}


def api_resource_list(group: str, version: str) -> JsonObject | None:
    """Return the APIResourceList of one group version, or None."""
    served = resources_of(group, version)
    if not served:
        return None
    entries: list[JsonObject] = []
    for resource in served:
        entries.append(_api_resource(resource))
        entries.extend(_api_subresource(resource, sub) for sub in resource.subresources)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": entries,
    }


def _groups() -> list[str]:
    return list(dict.fromkeys(group for group, _ in group_versions()))


def _versions(group: str) -> list[str]:
    return [version for g, version in group_versions() if g == group]


def _group_discovery(group: str) -> JsonObject:
    versions = [
        {
            "version": version,
            "resources": [_resource_discovery(r) for r in resources_of(group, version)],
            "freshness": "Current",
        }
        for version in _versions(group)
    ]
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _resource_discovery(resource: Resource) -> JsonObject:
    found: JsonObject = {
        "resource": resource.plural,
        "responseKind": _kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    found |= _names(resource)
    if resource.subresources:
        found["subresources"] = [_subresource_discovery(resource, s) for s in resource.subresources]
    return found


def _names(resource: Resource) -> JsonObject:
    named = {"shortNames": resource.short_names, "categories": resource.categories}
    return {key: list(names) for key, names in named.items() if names}


def _subresource_discovery(resource: Resource, sub: Subresource) -> JsonObject:
    kind = _kind(resource.group, resource.version, resource.kind)
    if sub.kind:
        kind = _kind(sub.group, sub.version, sub.kind)
    return {"subresource": sub.name, "responseKind": kind, "verbs": list(sub.verbs)}


def _kind(group: str, version: str, kind: str) -> JsonObject:
    return {"group": group, "version": version, "kind": kind}


def _api_group(group: str) -> JsonObject:
    versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in _versions(group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _api_resource(resource: Resource) -> JsonObject:
    return {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **_names(resource),
    }


def _api_subresource(resource: Resource, sub: Subresource) -> JsonObject:
    found: JsonObject = {
        "name": f"{resource.plural}/{sub.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": sub.kind or resource.kind,
        "verbs": list(sub.verbs),
    }
    if sub.kind and (sub.group, sub.version) != (resource.group, resource.version):
        found |= {"group": sub.group, "version": sub.version}
    return found
