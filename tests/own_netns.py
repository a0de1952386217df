"""Run a test in a network namespace of its own, in a process of its own.

A test that asks for the fixture ``own_netns`` is forked; the child enters new network
and mount namespaces, and a user namespace first when it is not root, runs the test with
all its fixtures, and sends the reports back. What the test makes disappears with the
child, whatever happens, and the process that runs the other tests never moves.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from _pytest.runner import runtestprotocol

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000


@pytest.fixture
def own_netns() -> None:
    """Mark the test as one that is forked into its own namespaces."""


def new_netns() -> int:
    """Return a descriptor of a new, empty network namespace; stay in this one."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _unshare(CLONE_NEWNET)
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    finally:
        if _libc.setns(here, CLONE_NEWNET):
            os._exit(70)  # lost between two namespaces
        os.close(here)


def in_netns(netns: int, *argv: str) -> str:
    """Run ``argv`` in the namespace open as ``netns``; return what it prints."""
    path = f"/proc/{os.getpid()}/fd/{netns}"
    done = subprocess.run(
        ["nsenter", f"--net={path}", *argv], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Fork the tests that ask for ``own_netns``; leave the others alone."""
    if "own_netns" not in getattr(item, "fixturenames", ()):
        return None
    if any(mark.name == "skip" for mark in item.iter_markers()):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _forked(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    # What earlier tests of this module set up and the next one does not need: the child
    # only tore down its copy of this test's own fixtures.
    item.session._setupstate.teardown_exact(nextitem)
    return True


class _Siblings:
    """Stands for "the next test is in the same module": nothing shared is torn down."""

    def __init__(self, item: pytest.Item) -> None:
        self._chain = item.listchain()[:-1]

    def listchain(self) -> list[Any]:
        return self._chain


_libc = ctypes.CDLL(None, use_errno=True)


def _unshare(flags: int) -> None:
    if _libc.unshare(flags):
        errno = ctypes.get_errno()
        raise OSError(errno, f"unshare: {os.strerror(errno)}")


def _forked(item: pytest.Item) -> list[pytest.TestReport]:
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _child(item, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if not data:
        raise RuntimeError(f"{item.nodeid}: the forked test ended with status {status}")
    hook = item.config.hook
    return [
        hook.pytest_report_from_serializable(config=item.config, data=one)
        for one in marshal.loads(data)
    ]


def _child(item: pytest.Item, writing: int) -> None:
    code = 1
    try:
        _enter()
        reports = runtestprotocol(item, log=False, nextitem=cast(pytest.Item, _Siblings(item)))
        hook = item.config.hook
        plain = [hook.pytest_report_to_serializable(config=item.config, report=r) for r in reports]
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(marshal.dumps(plain))
        code = 0
    finally:
        os._exit(code)


def _enter() -> None:
    uid, gid = os.geteuid(), os.getegid()
    if uid:
        _unshare(CLONE_NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    _unshare(CLONE_NEWNET | CLONE_NEWNS)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
