"""Tell people about trouble where they look: ``kubectl get events``, ``kubectl describe``.

An Event is an object beside the one it is about, with a reason to search for and a
message to read. kube-proxy knows a Service only by its name when a rule or a port of it
fails, so here the name becomes the reference that an Event needs.
"""

from __future__ import annotations

from labnet.client.events import Recorder

MESSAGE_MAX = 1024  # characters, as the API has it


class EventReporter:
    """Says warnings of kube-proxy on one node (a ``syncer.Reporter``)."""

    def __init__(self, recorder: Recorder, node: str) -> None:
        self._recorder = recorder
        self._node = node

    def __call__(self, reason: str, message: str, service: str) -> None:
        """Report on ``service`` (``namespace/name``), or on the node where that is ""."""
        self._recorder.warning(about(service, self._node), reason, message[:MESSAGE_MAX])


def about(service: str, node: str) -> dict[str, object]:
    """Return as much of the Service, or else of the Node, as an event needs."""
    namespace, _, name = service.partition("/")
    if not service:
        # A Node's events carry its name as uid: kubectl describe looks for them so.
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "uid": node}}
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata}
