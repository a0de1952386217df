"""Copying between a person's terminal and the one of a command in the lab."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios
from collections.abc import Iterator

import pytest

from labnet.lab import terminal


@pytest.fixture
def person() -> Iterator[tuple[int, int]]:
    """The two ends of the person's own terminal: keyboard-and-screen, and the tty."""
    master, slave = os.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


def size(descriptor: int) -> tuple[int, int]:
    packed = fcntl.ioctl(descriptor, termios.TIOCGWINSZ, b"\0" * 8)
    rows, columns, _, _ = struct.unpack("HHHH", packed)
    return rows, columns


def test_the_new_terminal_is_as_large_as_the_persons(person: tuple[int, int]) -> None:
    fcntl.ioctl(person[1], termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))

    master, slave = terminal.open_pair(like=person[1])

    assert size(slave) == (40, 120)
    os.close(master)
    os.close(slave)


def test_raw_mode_ends_with_the_block(person: tuple[int, int]) -> None:
    before = termios.tcgetattr(person[1])

    with terminal.raw(person[1]):
        assert not termios.tcgetattr(person[1])[3] & termios.ECHO

    assert termios.tcgetattr(person[1]) == before


def test_everything_the_command_wrote_arrives_before_the_end(person: tuple[int, int]) -> None:
    master, slave = terminal.open_pair(like=person[1])
    source, typed = os.pipe()
    shown, sink = os.pipe()
    os.write(typed, b"hello\n")
    command = subprocess.Popen(["sh", "-c", "read x; echo got $x"], stdin=slave, stdout=slave)
    os.close(slave)
    pidfd = os.pidfd_open(command.pid)

    terminal.converse(master, source, sink, pidfd)

    os.close(sink)
    with os.fdopen(shown, "rb") as output:
        assert b"got hello" in output.read()
    command.wait()
    for descriptor in (pidfd, master, source, typed):
        os.close(descriptor)
