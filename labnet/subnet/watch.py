"""All leases, always: list once, then follow the changes.

:func:`snapshots` turns etcd's events into whole pictures, so that whoever reads them
has no state of its own to get wrong. When etcd has forgotten the revision to go on from
(compaction), it lists again; a restart of etcd is the store's business.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager

from labnet.store.model import Compacted, Event, EventType, KeyValue, Store
from labnet.subnet.config import SUBNETS
from labnet.subnet.lease import Lease
from labnet.subnet.manager import parsed

Watch = AbstractContextManager[Iterator[tuple[Event, ...]]]


def snapshots(
    store: Store, opened: Callable[[Watch], object]
) -> Generator[tuple[Lease, ...], None, None]:
    """Yield all leases, now and after every change. Raises ``Unavailable``.

    ``opened`` is handed each watch; leaving that from another thread ends this.
    """
    while True:
        page = store.range(SUBNETS)
        there = {kv.key: kv for kv in page.items}
        yield parsed(there.values())
        watch = store.watch(SUBNETS, page.revision + 1)
        opened(watch)
        try:
            with watch as batches:
                for batch in batches:
                    if batch:
                        yield parsed(after(there, batch).values())
        except Compacted:
            continue
        return


def after(there: dict[str, KeyValue], events: Iterable[Event]) -> dict[str, KeyValue]:
    """Return ``there``, changed in place by ``events``."""
    for event in events:
        if event.type is EventType.PUT:
            there[event.kv.key] = event.kv
        else:
            there.pop(event.kv.key, None)
    return there
