"""Names, directories and lab.json of a lab's state."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from labnet.errors import LabnetError, Unavailable
from labnet.lab.state import (
    Host,
    LabInfo,
    StateDirectory,
    base_directory,
    check_name,
    private_directory,
    read_info,
    write_info,
)

INFO = LabInfo(
    name="demo",
    title="A demo",
    started="2026-01-01T00:00:00Z",
    pid=4711,
    api="https://127.0.0.1:40123",
    api_port=40123,
    hosts=(Host("node1", "192.168.50.11", "worker"),),
    components=("etcd", "kube-proxy@node1"),
    addresses={"podCIDR": "10.244.0.0/16"},
)


@pytest.mark.parametrize("name", ["a", "demo", "e2e-1234", "9lives", "a" * 63])
def test_a_dns_label_names_a_lab(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "Demo", "a_b", "-a", "a-", "a/b", "..", ".gone-x", "a" * 64])
def test_anything_else_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(LabnetError, match="cannot be a lab's name") as refused:
        check_name(name)

    assert "small letters" in refused.value.hint


def test_the_runtime_directory_of_this_user_is_the_base(tmp_path: Path) -> None:
    assert base_directory({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "labnet"


def test_a_runtime_directory_that_is_not_there_is_ignored(tmp_path: Path) -> None:
    fallback = base_directory({})

    assert base_directory({"XDG_RUNTIME_DIR": str(tmp_path / "absent")}) == fallback
    assert fallback in (Path("/run/labnet"), Path(f"/tmp/labnet-{os.geteuid()}"))


def test_a_new_directory_is_open_to_its_owner_alone(tmp_path: Path) -> None:
    made = private_directory(tmp_path / "labnet")

    assert made.stat().st_mode & 0o777 == 0o700
    assert private_directory(made) == made


def test_a_directory_open_to_others_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labnet"
    path.mkdir()
    path.chmod(0o755)

    with pytest.raises(LabnetError, match="open to other users") as refused:
        private_directory(path)

    assert refused.value.hint == f"chmod 700 {path}"


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "labnet").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(LabnetError, match="is not a directory"):
        private_directory(tmp_path / "labnet")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labnet"
    path.mkdir(mode=0o700)
    os.chown(path, 12345, 12345)

    with pytest.raises(LabnetError, match="belongs to uid 12345"):
        private_directory(path)


def test_lab_json_comes_back_as_it_was_written(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)

    write_info(state, INFO)

    assert read_info(state) == INFO
    assert [path.name for path in tmp_path.iterdir()] == ["lab.json"]


def test_a_lab_without_lab_json_is_still_starting(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="is still starting"):
        read_info(StateDirectory(tmp_path / "demo"))


def test_a_broken_lab_json_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.info.write_text("{}")

    with pytest.raises(LabnetError, match=r"lab\.json cannot be read"):
        read_info(state)
