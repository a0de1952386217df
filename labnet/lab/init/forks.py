"""A fork that reports: how PID 1 learns whether what it started really runs.

The child gets the writing end of a pipe that closes on exec. While it becomes what it
should be, any step may fail; then it writes the error as JSON and ends. If the exec
succeeds, or the child closes the pipe itself because it runs Python code, PID 1 reads
end of file and nothing else: started. PID 1 never waits for this, the pipe is one of
its loop's descriptors.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from labnet.lab.init.loop import Loop
from labnet.linux.process import fork, settle
from labnet.sandbox import protocol

Report = protocol.Message
OnReport = Callable[[Report], None]


class Ready:
    """What a child says: nothing yet, ``ready``, or a result; closed by an exec too."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __call__(self) -> None:
        """Report that everything is in place; failures from now on are the program's own."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    @property
    def said(self) -> bool:
        """Whether the parent was told already."""
        return self._descriptor < 0

    def report(self, report: Report) -> None:
        """Send a result or an error, and with it the end of the report."""
        with os.fdopen(self._descriptor, "wb") as pipe:
            pipe.write(protocol.dump(report))
        self._descriptor = -1


Task = Callable[[Ready], int | None]
"""What a child does; its result is the exit code. An exec does not return."""


@dataclass(frozen=True, slots=True)
class Forked:
    """A child: its pid, and a pidfd that means it even after the pid is used again."""

    pid: int
    pidfd: int


def start(loop: Loop, task: Task, keep: Collection[int], on_report: OnReport) -> Forked:
    """Fork and let the child do ``task``, with only ``keep`` of the descriptors.

    ``on_report`` is called later, once: with ``{}`` when the child runs, with its result,
    or with ``{"error": …}``.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        pid = fork()
        if pid == 0:
            _child(task, writer, keep)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    _collect(loop, reader, on_report)
    return Forked(pid, os.pidfd_open(pid))


def _child(task: Task, writer: int, keep: Collection[int]) -> NoReturn:
    code = 1
    try:
        os.set_blocking(writer, True)
        settle({*keep, writer})
        code = _outcome(task, Ready(writer))
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        # The parent's finalisers and exit functions are not this process's.
        os._exit(code)


def _outcome(task: Task, ready: Ready) -> int:
    """Return the exit code of ``task``; tell the parent, or stderr, what went wrong."""
    try:
        return task(ready) or 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001  # nobody is above a fork to catch it
        if ready.said:
            traceback.print_exc()
        else:
            ready.report(protocol.error_message(error))
        return 127


def _collect(loop: Loop, reader: int, on_report: OnReport) -> None:
    chunks: list[bytes] = []

    def read() -> None:
        if chunk := os.read(reader, 65536):
            chunks.append(chunk)
            return
        loop.forget(reader)
        loop.end()
        os.close(reader)
        on_report(protocol.load(b"".join(chunks)) if chunks else {})

    loop.begin()
    loop.on_readable(reader, read)
