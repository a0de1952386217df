"""What the API server knows about one kind of object.

A resource is known by three names: the *kind* in an object (``Deployment``), the
*plural* in a URL (``deployments``) and its *group/version* (``apps/v1``). Below an
object there may be *subresources*: its status, its scale, a pod's log. The table of all
kinds is ``kinds``; look-ups are in ``resources``.
"""

from __future__ import annotations

from dataclasses import dataclass

ALL_VERBS = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subresource:
    """One path below an object, e.g. ``pods/web/log``."""

    name: str
    verbs: tuple[str, ...]
    group: str = ""  # of the kind it takes and answers; "" with version "": the parent's
    version: str = ""
    kind: str = ""  # "": the parent's kind


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind in one version, and everything that follows from it being that kind."""

    group: str  # "" is the core group
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS  # ("create",) for reviews, which are never stored
    subresources: tuple[Subresource, ...] = ()
    storage: str = ""  # path below /registry; "": never stored
    hub: str = ""  # apiVersion of the stored object; "": this one
    field_labels: tuple[str, ...] = ()  # beside metadata.name and metadata.namespace
    graceful: bool = False  # DELETE waits for somebody to finish (pods)
    generation: bool = False  # metadata.generation counts changes of the spec

    @property
    def api_version(self) -> str:
        """``v1`` or ``apps/v1``: what an object says in ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_version(self) -> str:
        """The apiVersion that objects of this resource have in the store."""
        return self.hub or self.api_version

    @property
    def singular(self) -> str:
        """The kind in lower case, as Kubernetes derives it."""
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        """E.g. ``PodList``."""
        return f"{self.kind}List"

    def subresource(self, name: str) -> Subresource | None:
        """Return the subresource called ``name``, or None."""
        return next((s for s in self.subresources if s.name == name), None)

    @property
    def has_status(self) -> bool:
        """Whether status is written apart from the rest, through ``/status``."""
        return self.subresource("status") is not None

    def key(self, namespace: str, name: str) -> str:
        """Return the store's key of one object: ``/registry/pods/default/web``."""
        return f"{self.prefix(namespace)}{name}"

    def prefix(self, namespace: str = "") -> str:
        """Return the prefix of all keys, or of those of one namespace; ends with ``/``."""
        below = f"{namespace}/" if self.namespaced and namespace else ""
        return f"/registry/{self.storage}/{below}"
