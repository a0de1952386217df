"""GET and LIST: from the cache, or as it was then from the store.

The cache answers whatever is asked for *now*. Only the second page of a list, and lists
``Exact``ly as of an older revision, are read from etcd, which remembers every revision
since the last compaction; asked for an older one it says so, and the client gets 410.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labnet.api import meta
from labnet.api.status import expired, not_found, resource_version_too_large
from labnet.apiserver.cache import WatchCache
from labnet.apiserver.entry import Entry
from labnet.apiserver.selection import Selection
from labnet.apiserver.target import Target
from labnet.apiserver.versions import Read, continue_token
from labnet.store.model import Compacted, Page, Store

PATIENCE = 3.0  # seconds a request waits for a revision it says it has seen
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter."
)


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects, and the list's metadata."""

    entries: Sequence[Entry]
    metadata: dict[str, Any]


class Reading:
    """Reads for requests."""

    def __init__(self, store: Store, cache: WatchCache) -> None:
        self._store = store
        self._cache = cache

    def get(self, target: Target) -> Entry:
        """Return one object. Raises ApiError 404."""
        entry = self._cache.get(target.key)
        if entry is None:
            resource = target.resource
            raise not_found(resource.group, resource.plural, target.name)
        return entry

    def await_revision(self, revision: int) -> None:
        """Wait until the cache is at ``revision``. Raises ApiError 504 if it does not come."""
        if revision and not self._cache.reached(revision, PATIENCE):
            raise resource_version_too_large(revision, self._cache.revision)

    def list(self, selection: Selection, read: Read) -> Listing:
        """Return the objects selected. Raises ApiError 410, 504."""
        if read.exact:
            self.await_revision(read.revision)
            return self._as_of(selection, read)
        self.await_revision(read.revision)
        snapshot = self._cache.snapshot(selection.prefix)
        found = selection.of(snapshot.entries)
        if not read.limit or len(found) <= read.limit:
            return Listing(found, {"resourceVersion": str(snapshot.revision)})
        rest = len(found) - read.limit
        return _page(found[: read.limit], snapshot.revision, rest if selection.everything else None)

    def _as_of(self, selection: Selection, read: Read) -> Listing:
        """Read from the store as of a revision, page by page until the limit is reached."""
        found: list[Entry] = []
        start = f"{read.start}\0" if read.start else ""
        while True:
            page = self._range(selection.prefix, read, start)
            entries = [
                Entry(kv.key, meta.from_store(kv.value, kv.mod_revision), kv.mod_revision)
                for kv in page.items
            ]
            found += selection.of(entries)
            if read.limit and len(found) > read.limit:
                return _page(found[: read.limit], read.revision, None)
            if not page.more:
                break
            start = f"{page.items[-1].key}\0"
        return Listing(found, {"resourceVersion": str(read.revision)})

    def _range(self, prefix: str, read: Read, start: str) -> Page:
        limit = read.limit + 1 if read.limit else 0
        try:
            return self._store.range(prefix, limit=limit, revision=read.revision, start=start)
        except Compacted as error:
            text = _EXPIRED if read.start else f"too old resource version: {read.revision}"
            raise expired(text) from error


def _page(entries: Sequence[Entry], revision: int, remaining: int | None) -> Listing:
    metadata: dict[str, Any] = {
        "resourceVersion": str(revision),
        "continue": continue_token(revision, entries[-1].key),
    }
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    return Listing(entries, metadata)
