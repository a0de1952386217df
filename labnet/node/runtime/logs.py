"""Container logs as CRI runtimes write them, and as ``kubectl logs`` reads them.

One file per start of a container, ``/var/log/pods/<namespace>_<name>_<uid>/<container>/
<restart>.log``, one line per line written: time, stream, ``F`` (or ``P`` for a piece of
a line longer than 16 kB), text. A file that reaches its cap is renamed to ``….log.1``
and begun again: a chatty container costs two megabytes, not the machine.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from labnet.clock import Clock, parse_rfc3339
from labnet.sandbox import planner
from labnet.sandbox.spec import Process

ROOT = Path("/var/log/pods")
LINE_MAX = 16 * 1024
FILE_MAX = 1024 * 1024


def directory(root: Path, namespace: str, name: str, uid: str) -> Path:
    """Return the directory of a pod's logs."""
    return root / f"{namespace}_{name}_{uid}"


def path_of(root: Path, labels: Iterable[tuple[str, str]]) -> Path:
    """Return the log file of the container with these labels."""
    known = dict(labels)
    pod = directory(root, known[planner.NAMESPACE], known[planner.POD_NAME], known[planner.POD_UID])
    return pod / known[planner.CONTAINER] / f"{known[planner.ATTEMPT]}.log"


def path_of_process(root: Path, process: Process) -> Path:
    """Return the log file of one start of a container."""
    return path_of(root, process.labels)


def encode(moment: datetime, stream: str, text: bytes, *, whole: bool) -> bytes:
    """Return one line of a CRI log."""
    stamp = moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"
    return f"{stamp} {stream} {'F' if whole else 'P'} ".encode() + text + b"\n"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a CRI log, read back."""

    stamp: str
    stream: str
    whole: bool
    text: bytes

    def shown(self, *, timestamps: bool) -> bytes:
        """Return what a reader gets to see of it."""
        end = b"\n" if self.whole else b""
        return (f"{self.stamp} ".encode() if timestamps else b"") + self.text + end


def decode(line: bytes) -> Line | None:
    """Return the line, None for what is no CRI line (a torn write)."""
    parts = line.rstrip(b"\n").split(b" ", 3)
    if len(parts) != 4:
        return None
    return Line(parts[0].decode(), parts[1].decode(), parts[2] == b"F", parts[3])


class Writer:
    """The log file of one container: what both its streams write, line by line."""

    def __init__(self, path: Path, clock: Clock, limit: int = FILE_MAX) -> None:
        self._path, self._clock, self._limit = path, clock, limit
        self._rest = {"stdout": b"", "stderr": b""}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = self._open()
        self._size = os.fstat(self._fd).st_size

    def write(self, stream: str, data: bytes) -> None:
        """Add what was read from ``stream``; what is no whole line yet is kept back."""
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        now = self._clock.now()
        out = b"".join(piece for text in lines for piece in _pieces(now, stream, text))
        while len(rest) >= LINE_MAX:
            out += encode(now, stream, rest[:LINE_MAX], whole=False)
            rest = rest[LINE_MAX:]
        self._rest[stream] = rest
        self._append(out)

    def end(self, stream: str) -> None:
        """Say that ``stream`` was closed: its last line may lack an end."""
        if rest := self._rest[stream]:
            self._rest[stream] = b""
            self._append(encode(self._clock.now(), stream, rest, whole=True))

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)

    def _append(self, data: bytes) -> None:
        if not data:
            return
        if self._size and self._size + len(data) > self._limit:
            os.close(self._fd)
            self._path.rename(older(self._path))
            self._fd, self._size = self._open(), 0
        os.write(self._fd, data)
        self._size += len(data)


def _pieces(now: datetime, stream: str, text: bytes) -> Iterator[bytes]:
    while len(text) > LINE_MAX:
        yield encode(now, stream, text[:LINE_MAX], whole=False)
        text = text[LINE_MAX:]
    yield encode(now, stream, text, whole=True)


def older(path: Path) -> Path:
    """Return where the previous part of a full log file is."""
    return path.with_name(path.name + ".1")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which part of a log is asked for, as ``kubectl logs`` has it."""

    tail: int | None = None
    since: datetime | None = None
    limit: int | None = None  # bytes
    timestamps: bool = False


def selected(lines: Iterable[Line], wish: Selection) -> Iterator[bytes]:
    """Yield what ``wish`` lets through of ``lines``, in order."""
    kept: Iterator[Line] = (x for x in lines if wish.since is None or _moment(x) >= wish.since)
    if wish.tail is not None:
        kept = iter(deque(kept, maxlen=wish.tail))
    left = wish.limit
    for line in kept:
        shown = line.shown(timestamps=wish.timestamps)
        if left is not None:
            shown, left = shown[:left], left - len(shown)
        if shown:
            yield shown
        if left is not None and left <= 0:
            return


def _moment(line: Line) -> datetime:
    return parse_rfc3339(line.stamp[:26] + "Z")  # nanoseconds are more than Python keeps


class Follower:
    """Reads a log file as it grows, across its rotation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        self._torn = b""

    def existing(self) -> Iterator[Line]:
        """Yield what is there already, the older part first."""
        if older(self._path).exists():
            with older(self._path).open("rb") as file:
                yield from (line for raw in file if (line := decode(raw)) is not None)
        yield from self.new()

    def new(self) -> Iterator[Line]:
        """Yield what has been written since."""
        yield from self._read()
        if self._rotated():
            self._file.close()
            self._file = self._path.open("rb")
            yield from self._read()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self) -> Iterator[Line]:
        for raw in self._file:
            whole = self._torn + raw
            self._torn = b"" if whole.endswith(b"\n") else whole
            if not self._torn and (line := decode(whole)) is not None:
                yield line

    def _rotated(self) -> bool:
        try:
            return self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return False
