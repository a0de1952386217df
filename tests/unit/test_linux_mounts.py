"""Where a mount lands, and with which flags, without mounting anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from labnet.linux import mounts


@pytest.mark.parametrize(
    ("target", "lands"),
    [
        ("/usr/share", "usr/share"),
        ("/bin/sh", "usr/bin/sh"),
        ("/var/run/secrets", "run/secrets"),
        ("/up/passwd", "etc/passwd"),
        ("/../../etc", "etc"),
        ("/missing/deep/../x", "missing/x"),
        ("/", ""),
    ],
)
def test_links_are_followed_within_the_root(tmp_path: Path, target: str, lands: str) -> None:
    for name in ("usr/bin", "run", "var", "etc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "var/run").symlink_to("/run")
    (tmp_path / "up").symlink_to("../../../../etc")
    assert mounts.inside(str(tmp_path), target) == str(tmp_path / lands)


def test_a_loop_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        mounts.inside(str(tmp_path), "/a/x")


def test_options_split_into_flags_and_the_filesystems_own_text() -> None:
    assert mounts.options(("ro", "nosuid", "size=64k", "mode=755")) == (
        mounts.RDONLY | mounts.NOSUID,
        "size=64k,mode=755",
    )


def test_a_mount_point_is_made_with_its_parents_and_left_alone_if_there(tmp_path: Path) -> None:
    mounts.mount_point(str(tmp_path / "a/b"), directory=True)
    mounts.mount_point(str(tmp_path / "c/d"), directory=False)
    (tmp_path / "c/d").write_text("kept")
    mounts.mount_point(str(tmp_path / "c/d"), directory=False)
    mounts.mount_point(str(tmp_path / "a/b"), directory=True)
    assert (tmp_path / "a/b").is_dir()
    assert (tmp_path / "c/d").read_text() == "kept"


def test_what_is_there_is_told_with_links_followed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    names = ("link", "file", "nothing", "file/below")
    found = [mounts.kind_of(f"{tmp_path}/{name}") for name in names]
    assert found == ["directory", "other", "absent", "absent"]
