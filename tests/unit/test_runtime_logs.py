"""CRI log files: written from pipes, read back as kubectl asks."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from labnet.clock import FakeClock
from labnet.node.runtime.logs import Follower, Line, Selection, Writer, selected
from labnet.node.runtime.pump import LogPump
from tests.conditions import eventually

STAMP = "2026-01-01T00:00:00.000000000Z"


def stored(path: Path) -> list[Line]:
    follower = Follower(path)
    lines = list(follower.existing())
    follower.close()
    return lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "web" / "0.log"


def test_a_line_has_time_stream_and_a_tag(path: Path) -> None:
    writer = Writer(path, FakeClock())
    writer.write("stdout", b"hello\nwor")
    writer.write("stderr", b"oops\n")
    writer.write("stdout", b"ld\nrest")
    writer.end("stdout")
    writer.close()
    assert path.read_text().splitlines() == [
        f"{STAMP} stdout F hello",
        f"{STAMP} stderr F oops",
        f"{STAMP} stdout F world",
        f"{STAMP} stdout F rest",
    ]


def test_a_long_line_is_written_in_pieces_and_read_as_one(path: Path) -> None:
    writer = Writer(path, FakeClock())
    writer.write("stdout", b"x" * 40000 + b"\ny\n")
    writer.close()
    assert [line.whole for line in stored(path)] == [False, False, True, True]
    shown = b"".join(selected(stored(path), Selection()))
    assert shown == b"x" * 40000 + b"\ny\n"


def test_a_full_file_is_begun_again_and_only_one_older_part_is_kept(path: Path) -> None:
    writer = Writer(path, FakeClock(), limit=200)
    for number in range(20):
        writer.write("stdout", f"line {number}\n".encode())
    writer.close()
    assert sorted(p.name for p in path.parent.iterdir()) == ["0.log", "0.log.1"]
    assert path.stat().st_size <= 200
    kept = [line.text for line in stored(path)]
    assert kept[-1] == b"line 19"
    assert kept == sorted(kept, key=lambda text: int(text.split()[1]))


def test_a_follower_reads_across_the_rotation(path: Path) -> None:
    writer = Writer(path, FakeClock(), limit=150)
    writer.write("stdout", b"one\n")
    follower = Follower(path)
    seen = [line.text for line in follower.existing()]
    for text in (b"two\n", b"three\n", b"four\n", b"five\n"):
        writer.write("stdout", text)
        seen += [line.text for line in follower.new()]
    follower.close()
    writer.close()
    assert seen == [b"one", b"two", b"three", b"four", b"five"]


def test_a_follower_waits_for_the_rest_of_a_torn_line(path: Path) -> None:
    path.parent.mkdir()
    whole = f"{STAMP} stdout F hello\n".encode()
    path.write_bytes(whole[:20])
    follower = Follower(path)
    assert list(follower.existing()) == []
    with path.open("ab") as file:
        file.write(whole[20:])
    assert [line.text for line in follower.new()] == [b"hello"]
    follower.close()


LINES = tuple(
    Line(f"2026-01-01T00:00:0{n}.000000000Z", "stdout", True, f"l{n}".encode()) for n in range(4)
)


@pytest.mark.parametrize(
    ("wish", "shown"),
    [
        (Selection(), b"l0\nl1\nl2\nl3\n"),
        (Selection(tail=2), b"l2\nl3\n"),
        (Selection(tail=0), b""),
        (Selection(since=datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)), b"l2\nl3\n"),
        (Selection(limit=4), b"l0\nl"),
        (Selection(tail=1, timestamps=True), b"2026-01-01T00:00:03.000000000Z l3\n"),
    ],
)
def test_a_reader_gets_the_part_it_asks_for(wish: Selection, shown: bytes) -> None:
    assert b"".join(selected(LINES, wish)) == shown


def test_the_pump_carries_both_pipes_until_they_close(path: Path) -> None:
    pump = LogPump(FakeClock())
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    pump.add(path, out, err)
    os.write(out_end, b"to stdout\n")
    eventually(lambda: b"stdout F to stdout" in path.read_bytes())
    os.write(err_end, b"no end")
    os.close(err_end)
    eventually(lambda: b"stderr F no end" in path.read_bytes())
    assert not pump.ended(path)
    os.close(out_end)
    eventually(lambda: pump.ended(path))
