"""Pods of nodes that are no more: nobody is left to stop them, so they are removed.

A deleted Node object is somebody's word that the machine is gone. Its pods are deleted
without grace; whoever controls them makes new ones elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from labnet.api.meta import Object
from labnet.api.resource import Resource
from labnet.client.api import Api
from labnet.client.kinds import NODES, PODS
from labnet.client.views import Key, key_of
from labnet.controllers.loop import KeysOf, Mirrors
from labnet.controllers.writes import Outcome, Say, Write, remove
from labnet.errors import NotFound


def reconcile(pod: Object, *, node_exists: bool) -> Outcome:
    """Return the deletion of a pod that is on a node that does not exist."""
    if node_exists or not pod["spec"].get("nodeName"):
        return Outcome()
    return Outcome((remove(PODS, pod, grace_seconds=0),))


class PodGc:
    """The reconciler's eyes."""

    name = "pod-garbage-collector-controller"

    def __init__(self, mirrors: Mirrors, api: Api) -> None:
        self._nodes = mirrors.of(NODES)
        self._pods = mirrors.of(PODS)
        self._api = api

    def watched(self) -> Mapping[Resource, KeysOf]:
        """Pods on nodes the mirror lacks, and the pods of a node that goes."""
        return {PODS: self._stranded, NODES: self._left_behind}

    def _stranded(self, pod: Object) -> tuple[Key, ...]:
        name = pod["spec"].get("nodeName", "")
        return (key_of(pod),) if name and self._nodes.get(name) is None else ()

    def _left_behind(self, node: Object) -> tuple[Key, ...]:
        name = node["metadata"]["name"]
        if self._nodes.get(name) is not None:
            return ()
        pods = self._pods.objects()
        return tuple(key_of(p) for p in pods if p["spec"].get("nodeName") == name)

    def look(self, key: Key) -> Outcome:
        """Decide about one pod; the API server is asked, for the mirror may lag."""
        pod = self._pods.get(key[1], key[0])
        if pod is None or not self._stranded(pod):
            return Outcome()
        return reconcile(pod, node_exists=self._exists(pod["spec"]["nodeName"]))

    def _exists(self, node: str) -> bool:
        try:
            self._api.get(NODES, node)
        except NotFound:
            return False
        return True

    def wrote(self, key: Key, write: Write, answer: Object | None) -> Say | None:
        """Nothing to remember: removing twice is removing once."""
        return None
