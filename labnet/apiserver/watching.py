"""Watch requests: what a watch begins with, and what it is told after that.

Three beginnings (kubectl and controllers use all three):

- no ``resourceVersion``, or 0: an ADDED for everything there is, then what happens;
- ``resourceVersion=N``: what happened after N; 410 if that is not kept any more;
- ``sendInitialEvents=true`` (a *WatchList*): an ADDED for everything, then a BOOKMARK
  that says "that was all", then what happens.

A watch ends by itself after ``timeoutSeconds``, or half an hour to an hour; clients
watch again from the last resource version they saw. Bookmarks tell them a newer one
when nothing they watch has changed for a while.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime

from labnet.api.status import Cause, bad_request, invalid
from labnet.api.table import partial
from labnet.apiserver import forms
from labnet.apiserver.accept import Accepted, Form
from labnet.apiserver.cache import WatchCache
from labnet.apiserver.entry import Change, Entry, encode, event
from labnet.apiserver.selection import Selection
from labnet.apiserver.streams import Stream, StreamLoop
from labnet.apiserver.tls import ClientSocket
from labnet.apiserver.versions import Read
from labnet.clock import Clock

TIMEOUT = 30 * 60.0  # seconds at least, where the client names none


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """One watch, as asked for."""

    selection: Selection
    accepted: Accepted
    since: int | None  # None: begin with everything there is
    end_of_initial: bool  # say with a bookmark where the initial objects end
    bookmarks: bool
    timeout: float
    include: str = "Metadata"


def request(
    selection: Selection, accepted: Accepted, read: Read, args: Mapping[str, str], spread: float
) -> WatchRequest:
    """Return the watch that the query parameters ask for. Raises ApiError 422.

    ``spread`` (0 to 1) sets apart the ends of watches that name no timeout.
    """
    initial = args.get("sendInitialEvents")
    if initial is not None and read.match != "NotOlderThan":
        text = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid(
            "", "ListOptions", "", [Cause("FieldValueForbidden", text, "sendInitialEvents")]
        )
    timeout = _seconds(args.get("timeoutSeconds") or "0") or TIMEOUT * (1 + spread)
    from_start = initial == "true" or (initial is None and not read.revision)
    bookmarks = args.get("allowWatchBookmarks") in ("true", "1")
    return WatchRequest(
        selection,
        accepted,
        None if from_start else read.revision,
        initial == "true" and bookmarks,
        bookmarks,
        timeout,
        args.get("includeObject", "Metadata"),
    )


def _seconds(text: str) -> float:
    if not text.isdecimal():
        raise bad_request(f'invalid timeoutSeconds "{text}": it is a whole number, or left out')
    return float(text)


def head(content_type: str, now: datetime) -> bytes:
    """Return the response's head; its body is chunked and ends the connection."""
    date = format_datetime(now, usegmt=True)
    return (
        f"HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Type: {content_type}\r\n"
        "Cache-Control: no-cache, private\r\nTransfer-Encoding: chunked\r\n"
        "Connection: close\r\n\r\n"
    ).encode()


class Feed:
    """Turns changes into this watch's events. ``offer`` is called by the cache's thread."""

    def __init__(self, wanted: WatchRequest, cache: WatchCache, clock: Clock) -> None:
        self._wanted = wanted
        self._cache = cache
        self._clock = clock
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._early: list[Change] = []  # what happened before there was a stream
        self._last = 0  # the newest revision this watch was told of
        self._columns = True  # still to be sent: the Table's column definitions

    def start(self) -> list[bytes]:
        """Subscribe; return what the watch begins with. Raises ApiError 410."""
        wanted, prefix = self._wanted, self._wanted.selection.prefix
        if wanted.since is not None:
            changes = self._cache.resume(prefix, wanted.since, self)
            self._last = wanted.since
            return [frame for change in changes if (frame := self._frame(change))]
        snapshot = self._cache.subscribe(prefix, self)
        self._last = snapshot.revision
        try:
            begin = [self._added(entry) for entry in wanted.selection.of(snapshot.entries)]
        except BaseException:
            self.stop()
            raise
        if wanted.end_of_initial:
            begin.append(self._bookmark(initial_end=True))
        return begin

    def run(self, loop: StreamLoop, sock: ClientSocket, beginning: Sequence[bytes]) -> None:
        """Send ``beginning`` and everything after it to ``sock``, in the loop's thread."""
        stream = Stream(
            loop,
            sock,
            ends=self._clock.monotonic() + self._wanted.timeout,
            on_close=self.stop,
            on_tick=self._tick if self._wanted.bookmarks else None,
        )
        with self._lock:
            late = [frame for change in self._early if (frame := self._frame(change))]
            stream.begin((head("application/json", self._clock.now()), *beginning, *late))
            self._stream = stream

    def stop(self) -> None:
        """Unsubscribe."""
        self._cache.unsubscribe(self._wanted.selection.prefix, self)

    def offer(self, change: Change) -> None:
        """Send what ``change`` is to this watch, if anything."""
        with self._lock:
            if self._stream is None:
                self._early.append(change)
            elif frame := self._frame(change):
                self._stream.push(frame)

    def _tick(self) -> None:
        with self._lock:
            self._last = max(self._last, self._cache.delivered)
            if self._stream is not None:
                self._stream.push(self._bookmark())

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        wanted = self._wanted
        document = forms.bookmark(
            wanted.selection.resource, wanted.accepted.form, self._last, initial_end=initial_end
        )
        return event("BOOKMARK", document)

    def _added(self, entry: Entry) -> bytes:
        frame = event("ADDED", self._document(entry))
        self._columns = False
        return frame

    def _frame(self, change: Change) -> bytes | None:
        """Return the event, shared with every watch that sees the change in the same way."""
        kind = self._wanted.selection.seen_as(change)
        self._last = change.entry.revision
        if kind is None:
            return None
        wanted = self._wanted
        shared = [kind, wanted.selection.resource.api_version, wanted.accepted.form.value]
        if wanted.accepted.form is Form.TABLE:
            shared += [wanted.include, str(self._columns)]
        frame = change.frame(tuple(shared), lambda: event(kind, self._document(change.entry)))
        self._columns = False
        return frame

    def _document(self, entry: Entry) -> bytes:
        resource, form = self._wanted.selection.resource, self._wanted.accepted.form
        if form is Form.OBJECT:
            return entry.json(resource)
        shown = entry.shown(resource)
        if form is Form.PARTIAL:
            return encode(partial(shown))
        include, columns = self._wanted.include, self._columns
        return forms.row(resource, shown, self._clock.now(), include, columns=columns)
