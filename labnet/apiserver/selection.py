"""Which objects a LIST or WATCH means: a place, labels and fields.

For a watch, a selection turns changes of objects into changes of *membership*: an object
that begins to match is ADDED for this watcher, one that ceases to match is DELETED,
whatever happened to it in the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labnet.api import convert
from labnet.api.meta import Object, metadata_of
from labnet.api.resources import Resource
from labnet.api.selectors import (
    EVERYTHING,
    FieldSelector,
    LabelSelector,
    parse_fields,
    parse_labels,
)
from labnet.apiserver.entry import Change, Entry

_ANY_FIELDS = FieldSelector()


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of ``resource`` below ``prefix`` that both selectors match."""

    resource: Resource
    prefix: str
    labels: LabelSelector = EVERYTHING
    fields: FieldSelector = _ANY_FIELDS

    @property
    def everything(self) -> bool:
        """Whether there is no selector at all."""
        return not self.labels.requirements and not self.fields.terms

    def matches(self, obj: Object) -> bool:
        """Whether an object (as stored), known to be below the prefix, is meant."""
        if self.everything:
            return True
        if not self.labels.matches(metadata_of(obj).get("labels")):
            return False
        return self.fields.matches(self.resource, convert.shown(self.resource, obj))

    def of(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return those of ``entries`` that are meant."""
        if self.everything:
            return list(entries)
        return [entry for entry in entries if self.matches(entry.object)]

    def seen_as(self, change: Change) -> str | None:
        """Return ADDED, MODIFIED or DELETED: what ``change`` is to a watcher; None: nothing."""
        if not change.entry.key.startswith(self.prefix):
            return None
        if self.everything:
            return change.type
        before = change.previous is not None and self.matches(change.previous.object)
        after = change.type != "DELETED" and self.matches(change.entry.object)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None


def selection(
    resource: Resource, namespace: str, labels: str = "", fields: str = "", name: str = ""
) -> Selection:
    """Return what the query parameters mean. Raises ApiError 400.

    ``name`` restricts to one object, as ``metadata.name=`` among the fields does; then
    only its own key is looked at.
    """
    by_label = parse_labels(labels) if labels else EVERYTHING
    by_field = parse_fields(resource, fields) if fields else _ANY_FIELDS
    if name:
        by_field = FieldSelector((*by_field.terms, ("metadata.name", True, name)))
    within = by_field.exact("metadata.namespace")
    if within and not namespace and resource.namespaced:
        namespace = within
    exact = by_field.exact("metadata.name")
    if exact and (namespace or not resource.namespaced):
        return Selection(resource, resource.key(namespace, exact), by_label, by_field)
    return Selection(resource, resource.prefix(namespace), by_label, by_field)
