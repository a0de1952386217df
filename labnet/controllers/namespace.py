"""Deleting a namespace: everything in it first, then itself.

A deleted namespace is only *Terminating*: the API server takes no new objects for it,
and its finalizer ``kubernetes`` keeps it until this controller has seen it empty. Pods
on a node end with their grace period, so that may take a while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.api.resources import stored
from labnet.client.api import Api
from labnet.client.kinds import NAMESPACES, PODS
from labnet.client.views import Key, is_deleting
from labnet.controllers.loop import KeysOf, Mirrors
from labnet.controllers.writes import Clear, Outcome, Say, Update, Write

SOON = 0.02  # seconds until the look that usually finds everything gone
LATEST = 2.0  # seconds between looks when something stays: pods ending, finalizers


def reconcile(namespace: Object, left: Sequence[Resource], looks: int) -> Outcome:
    """Return the writes that empty a dying namespace, or let it go.

    ``left`` are the kinds that have objects in it, ``looks`` how often it was not empty.
    """
    if not is_deleting(namespace) or not namespace.get("spec", {}).get("finalizers"):
        return Outcome()
    if left:
        name = namespace["metadata"]["name"]
        again = min(LATEST, SOON * 2**looks)
        return Outcome(tuple(Clear(resource, name) for resource in left), again)
    spec = {**namespace["spec"], "finalizers": []}
    return Outcome((Update(NAMESPACES, {**namespace, "spec": spec}, "finalize"),))


def cleared() -> tuple[Resource, ...]:
    """Return the kinds that live in a namespace."""
    return tuple(r for r in stored() if r.namespaced and "deletecollection" in r.verbs)


class Namespaces:
    """The reconciler's eyes."""

    name = "namespace-controller"

    def __init__(self, mirrors: Mirrors, api: Api) -> None:
        self._namespaces = mirrors.of(NAMESPACES)
        self._pods = mirrors.of(PODS)
        self._api = api
        self._looks: dict[Key, int] = {}

    def watched(self) -> Mapping[Resource, KeysOf]:
        """Namespaces, and pods that leave a dying one."""
        return {NAMESPACES: lambda obj: (("", obj["metadata"]["name"]),), PODS: self._dying}

    def _dying(self, pod: Object) -> tuple[Key, ...]:
        name = pod["metadata"]["namespace"]
        namespace = self._namespaces.get(name)
        if namespace is None or not is_deleting(namespace):
            return ()
        return () if self._pods.get(pod["metadata"]["name"], name) else (("", name),)

    def look(self, key: Key) -> Outcome:
        """Decide about one namespace; what is in it is asked of the API server itself."""
        namespace = self._namespaces.get(key[1])
        if namespace is None or not is_deleting(namespace):
            self._looks.pop(key, None)
            return Outcome()
        left = [r for r in cleared() if self._api.list(r, key[1]).items]
        looks = self._looks.get(key, 0)
        self._looks[key] = min(looks + 1, 10)
        return reconcile(namespace, left, looks)

    def wrote(self, key: Key, write: Write, answer: Object | None) -> Say | None:
        """Nothing to remember."""
        return None
