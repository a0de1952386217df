"""kubeconfig: how kubectl finds a lab, and how it is merged into one's own file.

A kubeconfig names clusters, users and contexts, and a context joins one of each. A lab
is ``labnet-<name>`` in all three lists, certificates embedded, so that the file works
wherever it is copied. Merging replaces the lab's own entries and touches nothing else:
other clusters keep their entries, their order and the current context unless asked.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labnet.errors import LabnetError

Document = dict[str, Any]
_LISTS = ("clusters", "users", "contexts")


def context_name(lab: str) -> str:
    """Return the name under which a lab appears in a kubeconfig."""
    return f"labnet-{lab}"


def document(lab: str, server: str, pki: Path) -> Document:
    """Return the admin's kubeconfig for ``server``, with the certificates in ``pki``."""
    name = context_name(lab)
    cluster = {"server": server, "certificate-authority-data": _embedded(pki / "ca.crt")}
    user = {
        "client-certificate-data": _embedded(pki / "admin.crt"),
        "client-key-data": _embedded(pki / "admin.key"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _embedded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def merged(existing: Mapping[str, Any] | None, lab: Mapping[str, Any]) -> Document:
    """Return ``existing`` with the lab's entries in it and its context made current.

    Entries of the same name are replaced where they stand; everything else, known to
    us or not, stays as it is. Raises ``LabnetError`` if ``existing`` is no kubeconfig.
    """
    if not existing:
        return dict(lab)
    result = dict(existing)
    for key in _LISTS:
        entries = result.get(key) or []
        if not isinstance(entries, list):
            raise LabnetError(
                f"this is not a kubeconfig: {key} is not a list",
                hint="use `labnet kubeconfig` and merge by hand",
            )
        result[key] = _replaced(entries, lab[key][0])
    result["current-context"] = lab["current-context"]
    return result


def _replaced(entries: list[Any], new: Mapping[str, Any]) -> list[Any]:
    kept = [dict(new) if _is_named(entry, new["name"]) else entry for entry in entries]
    return kept if dict(new) in kept else [*kept, dict(new)]


def _is_named(entry: object, name: object) -> bool:
    return isinstance(entry, Mapping) and entry.get("name") == name
