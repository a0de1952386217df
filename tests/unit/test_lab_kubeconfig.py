"""A lab's kubeconfig, and merging it into one's own."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from labnet.errors import LabnetError
from labnet.lab.kubeconfig import document, merged

OWN = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {"colors": True},
    "clusters": [{"name": "work", "cluster": {"server": "https://work.example"}}],
    "users": [{"name": "me", "user": {"token": "secret"}}],
    "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me"}}],
    "current-context": "work",
}


@pytest.fixture
def lab(tmp_path: Path) -> dict[str, object]:
    for name in ("ca.crt", "admin.crt", "admin.key"):
        (tmp_path / name).write_text(f"the {name}")
    return document("demo", "https://127.0.0.1:40123", tmp_path)


def test_the_certificates_are_inside_the_file(lab: dict[str, object]) -> None:
    assert lab["current-context"] == "labnet-demo"
    users = lab["users"]
    assert isinstance(users, list)
    key = users[0]["user"]["client-key-data"]
    assert base64.b64decode(key) == b"the admin.key"


@pytest.mark.parametrize("empty", [None, {}])
def test_into_nothing_it_is_taken_as_it_is(lab: dict[str, object], empty: None) -> None:
    assert merged(empty, lab) == lab


def test_other_entries_stay_as_they_are(lab: dict[str, object]) -> None:
    result = merged(OWN, lab)

    for key in ("clusters", "users", "contexts"):
        assert [entry["name"] for entry in result[key]][1:] == ["labnet-demo"]
        assert result[key][0] == OWN[key][0]  # type: ignore[index]
    assert result["preferences"] == {"colors": True}
    assert result["current-context"] == "labnet-demo"


def test_merging_twice_changes_nothing(lab: dict[str, object]) -> None:
    once = merged(OWN, lab)

    assert merged(once, lab) == once


def test_the_labs_old_entry_is_replaced_where_it_stood(
    lab: dict[str, object], tmp_path: Path
) -> None:
    moved = document("demo", "https://127.0.0.1:1", tmp_path)

    result = merged(merged(lab, OWN), moved)

    assert [entry["name"] for entry in result["clusters"]] == ["labnet-demo", "work"]
    assert result["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"


def test_what_is_no_kubeconfig_is_refused(lab: dict[str, object]) -> None:
    with pytest.raises(LabnetError, match="clusters is not a list"):
        merged({"clusters": "none"}, lab)
