"""The registry: every kind of object the API server serves, looked up by its names.

Discovery, URL routing, storage keys, Table columns and the OpenAPI documents are all
read off one table, ``kinds.KINDS``; adding a kind is adding an entry there.

The same stored object may be shown in several versions: ``extensions/v1beta1``
Deployments are ``apps/v1`` Deployments in an older dress (``hub`` names the version
that is stored), exactly as the articles' manifests expect.
"""

from __future__ import annotations

from labnet.api.kinds import KINDS
from labnet.api.resource import ALL_VERBS, Resource, Subresource

__all__ = [
    "ALL_VERBS",
    "Resource",
    "Subresource",
    "by_kind",
    "find",
    "group_versions",
    "resources_of",
    "stored",
]

_BY_PATH = {(r.group, r.version, r.plural): r for r in KINDS}
_BY_KIND = {(r.api_version, r.kind): r for r in KINDS}


def find(group: str, version: str, plural: str) -> Resource | None:
    """Return the resource behind ``/apis/<group>/<version>/…/<plural>``, or None."""
    return _BY_PATH.get((group, version, plural))


def by_kind(api_version: str, kind: str) -> Resource | None:
    """Return the resource of an object with this apiVersion and kind, or None."""
    return _BY_KIND.get((api_version, kind))


def group_versions() -> tuple[tuple[str, str], ...]:
    """Return every (group, version), preferred ones first; the core group leads.

    Clients that are told only ``deployments`` take the first group that has them.
    """
    return tuple(dict.fromkeys((r.group, r.version) for r in KINDS))


def resources_of(group: str, version: str) -> tuple[Resource, ...]:
    """Return the resources of one group version, in the order of their plurals."""
    found = (r for r in KINDS if (r.group, r.version) == (group, version))
    return tuple(sorted(found, key=lambda r: r.plural))


def stored() -> tuple[Resource, ...]:
    """Return one resource per kind that is stored, in its stored version."""
    return tuple(r for r in KINDS if r.storage and not r.hub)
