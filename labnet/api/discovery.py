"""Discovery: how a client learns which resources there are.

Today's clients fetch two *aggregated* documents, ``/api`` and ``/apis``; older ones and
the Python dynamic client walk the *legacy* ones: APIVersions, APIGroupList, and one
APIResourceList per group version.
"""

from __future__ import annotations

from labnet.api.meta import JsonObject

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def aggregated(core: bool, version: str = "v2") -> JsonObject:
    """Return the APIGroupDiscoveryList of ``/api`` (core) or ``/apis``; v2 or v2beta1."""
    raise NotImplementedError


def api_versions(server_address: str) -> JsonObject:
    """Return the APIVersions document of ``/api``; the address is ``host:port``."""
    raise NotImplementedError


def api_group_list() -> JsonObject:
    """Return the APIGroupList document of ``/apis``."""
    raise NotImplementedError


def api_group(group: str) -> JsonObject | None:
    """Return the APIGroup document of ``/apis/<group>``, or None."""
    raise NotImplementedError


def api_resource_list(group: str, version: str) -> JsonObject | None:
    """Return the APIResourceList of one group version, or None."""
    raise NotImplementedError
