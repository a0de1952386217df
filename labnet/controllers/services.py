"""Which Services a pod is behind: what both endpoint controllers ask for every change.

A pod changes often (every heartbeat of a probe), a Service's selector hardly ever. So
the selectors are kept read, per namespace, and a pod asks only those.
"""

from __future__ import annotations

from labnet.api.meta import Object
from labnet.api.selectors import LabelSelector, match_labels
from labnet.client.kinds import SERVICES
from labnet.client.views import Key, key_of
from labnet.controllers.endpoint_ports import selects_pods
from labnet.controllers.loop import Mirrors


class ServiceIndex:
    """The Services of the cluster, by key and by what they select."""

    def __init__(self, mirrors: Mirrors) -> None:
        self._mirror = mirrors.of(SERVICES)
        self._selectors: dict[str, dict[Key, LabelSelector]] = {}
        self._mirror.on_change(self._note)

    def _note(self, old: Object | None, new: Object | None) -> None:
        changed = new or old
        if changed is None:
            return
        key = key_of(changed)
        selectors = self._selectors.setdefault(key[0], {})
        if new is not None and selects_pods(new):
            selectors[key] = match_labels(new["spec"]["selector"])
        else:
            selectors.pop(key, None)

    def get(self, key: Key) -> Object | None:
        """Return one Service, or None."""
        return self._mirror.get(key[1], key[0])

    def selecting(self, pod: Object) -> tuple[Key, ...]:
        """Return the Services that select ``pod``."""
        namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels")
        selectors = list(self._selectors.get(namespace, {}).items())
        return tuple(key for key, selector in selectors if selector.matches(labels))
