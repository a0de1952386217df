"""A file that is written in one step."""

from __future__ import annotations

from pathlib import Path

import pytest

from labnet.linux.files import write_whole


def test_a_file_and_its_directories_come_into_being(tmp_path: Path) -> None:
    write_whole(tmp_path / "a/b/c", "new")

    assert (tmp_path / "a/b/c").read_text() == "new"


def test_whoever_has_the_old_file_open_reads_it_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with path.open() as reader:
        write_whole(path, "new")

        assert (reader.read(), path.read_text()) == ("old", "new")


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    (tmp_path / ".file.new").mkdir()

    with pytest.raises(IsADirectoryError):
        write_whole(path, "new")
    assert path.read_text() == "old"


def test_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", "new")

    assert [p.name for p in tmp_path.iterdir()] == ["file"]
