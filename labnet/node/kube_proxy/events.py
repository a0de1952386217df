"""Tell people about trouble where they look: ``kubectl get events``, ``kubectl describe``.

An Event is an object beside the one it is about, with a reason to search for and a
message to read. Losing one is no reason to stop: a failure to write it is only logged.
"""

from __future__ import annotations

import logging
from uuid import uuid4

from labnet.client.api import Api
from labnet.client.kinds import EVENTS
from labnet.clock import Clock, rfc3339
from labnet.errors import LabnetError

log = logging.getLogger("kube-proxy")


class EventReporter:
    """Writes warnings as Events of kube-proxy on one node (a ``syncer.Reporter``)."""

    def __init__(self, api: Api, node: str, clock: Clock) -> None:
        self._api = api
        self._node = node
        self._clock = clock

    def __call__(self, reason: str, message: str, service: str) -> None:
        """Report on ``service`` (``namespace/name``), or on the node where that is ""."""
        namespace, _, name = service.partition("/")
        about = (
            {"apiVersion": "v1", "kind": "Service", "namespace": namespace, "name": name}
            if service
            else {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": self._node}
        )
        now = rfc3339(self._clock.now())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about['name']}.{uuid4().hex[:16]}",
                "namespace": namespace or "default",
            },
            "involvedObject": about,
            "reason": reason,
            "message": message[:1024],
            "type": "Warning",
            "source": {"component": "kube-proxy", "host": self._node},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._api.create(EVENTS, event)
        except LabnetError as error:
            log.warning("event %s lost: %s", reason, error.message)
