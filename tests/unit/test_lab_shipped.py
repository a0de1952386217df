"""Shipped scenarios by name, others by path."""

from __future__ import annotations

from pathlib import Path

import pytest

from labnet.errors import NotFound
from labnet.lab.shipped import resolve, shipped


@pytest.fixture
def where(tmp_path: Path) -> Path:
    (tmp_path / "lesson").mkdir()
    for name in ("my-nginx.yaml", "dns.yaml", "lesson/lab.yaml"):
        (tmp_path / name).touch()
    return tmp_path


def test_files_and_folders_are_scenarios(where: Path) -> None:
    assert list(shipped(where)) == ["dns", "lesson", "my-nginx"]


def test_without_a_name_it_is_my_nginx(where: Path) -> None:
    assert resolve(None, where) == where / "my-nginx.yaml"


def test_a_folder_means_the_lab_in_it(where: Path) -> None:
    assert resolve("lesson", where) == where / "lesson" / "lab.yaml"
    assert resolve(str(where / "lesson"), where / "none") == where / "lesson" / "lab.yaml"


def test_a_path_is_taken_as_it_is(where: Path) -> None:
    assert resolve(str(where / "dns.yaml"), where) == where / "dns.yaml"


def test_a_misspelt_name_is_answered_with_the_nearest(where: Path) -> None:
    with pytest.raises(NotFound, match="no scenario 'my-ngnix'") as missing:
        resolve("my-ngnix", where)

    assert missing.value.hint.startswith("did you mean my-nginx?")


def test_a_path_that_is_not_there_is_called_a_file(where: Path) -> None:
    with pytest.raises(NotFound, match=r"there is no file \./lab\.yaml"):
        resolve("./lab.yaml", where)


def test_the_repositorys_own_scenarios_are_found() -> None:
    assert "my-nginx" in shipped()
