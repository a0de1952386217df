"""Who owns which field: managedFields, and server-side apply."""

from __future__ import annotations

import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.api import fields, managed, resources, writes
from labnet.api.status import ApiError
from labnet.api.writes import Write

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Fixed:
    """A chooser that always chooses the same."""

    def uid(self) -> str:
        return "uid"

    def suffix(self) -> str:
        return "bcdfg"


def _write(
    manager: str, kind: str = "Deployment", version: str = "apps/v1", sub: str = ""
) -> Write:
    resource = resources.by_kind(version, kind)
    assert resource is not None
    return Write(resource, manager, NOW, Fixed(), sub, "default", "d")


def _config(replicas: int | None = 1, **images: str) -> dict[str, Any]:
    containers = [{"name": n, "image": i} for n, i in (images or {"web": "nginx"}).items()]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    spec: dict[str, Any] = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"}, "spec": spec}


def _apply(
    old: dict[str, Any] | None, config: dict[str, Any], manager: str = "me", *, force: bool = False
) -> dict[str, Any]:
    before = deepcopy(old)
    body = json.dumps(config).encode()
    new = writes.apply(_write(manager), old, body, force=force).object
    assert old == before, "the old object was changed"
    return new


def _owned(obj: dict[str, Any], manager: str) -> set[str]:
    return {
        fields.text(path)
        for owner in managed.owners(obj)
        if owner.manager == manager
        for path in owner.fields
    }


def _images(obj: dict[str, Any]) -> dict[str, str]:
    return {c["name"]: c["image"] for c in obj["spec"]["template"]["spec"]["containers"]}


def test_apply_creates_and_owns_what_it_sent_and_no_default() -> None:
    new = _apply(None, _config())
    assert new["spec"]["revisionHistoryLimit"] == 10
    assert _owned(new, "me") == {
        ".spec.replicas",
        ".spec.selector",
        ".spec.template.metadata.labels.a",
        '.spec.template.spec.containers[name="web"]',
        '.spec.template.spec.containers[name="web"].name',
        '.spec.template.spec.containers[name="web"].image',
    }


def test_a_second_apply_does_nothing() -> None:
    first = _apply(None, _config())
    assert _apply(first, _config()) is first


def test_what_is_no_longer_applied_is_removed() -> None:
    first = _apply(None, _config(web="nginx", side="busybox"))
    second = _apply(first, _config(replicas=None, web="nginx"))
    assert _images(second) == {"web": "nginx"}
    assert second["spec"]["replicas"] == 1  # the default, owned by nobody
    assert ".spec.replicas" not in _owned(second, "me")


def test_what_somebody_else_added_stays() -> None:
    first = _apply(None, _config())
    labelled = deepcopy(first)
    labelled["metadata"]["labels"] = {"x": "y"}
    labelled = writes.update(_write("label"), first, labelled)
    assert _owned(labelled, "label") == {".metadata.labels.x"}
    assert _apply(labelled, _config(replicas=3))["metadata"]["labels"] == {"x": "y"}


def _scaled(old: dict[str, Any]) -> dict[str, Any]:
    body = deepcopy(old)
    body["spec"]["replicas"] = 5
    return writes.update(_write("scaler"), old, body)


def test_whoever_changes_a_field_owns_it_alone() -> None:
    scaled = _scaled(_apply(None, _config()))
    assert _owned(scaled, "scaler") == {".spec.replicas"}
    assert ".spec.replicas" not in _owned(scaled, "me")


def test_another_value_is_a_conflict_that_names_the_owner() -> None:
    scaled = _scaled(_apply(None, _config()))
    with pytest.raises(ApiError) as refused:
        _apply(scaled, _config(replicas=2))
    assert refused.value.code == 409
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "scaler" using apps/v1: .spec.replicas'
    )
    assert refused.value.details["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "scaler" using apps/v1',
            "field": ".spec.replicas",
        }
    ]


def test_several_conflicts_are_listed() -> None:
    first = _apply(None, _config())
    with pytest.raises(ApiError) as refused:
        _apply(first, _config(replicas=2, web="other"), "you")
    assert refused.value.message == (
        'Apply failed with 2 conflicts: conflicts with "me":\n'
        "- .spec.replicas\n"
        '- .spec.template.spec.containers[name="web"].image'
    )


def test_force_takes_the_field_over() -> None:
    forced = _apply(_scaled(_apply(None, _config())), _config(replicas=2), force=True)
    assert forced["spec"]["replicas"] == 2
    assert _owned(forced, "scaler") == set()
    assert ".spec.replicas" in _owned(forced, "me")


def test_the_same_value_is_owned_together_and_stays_when_one_lets_go() -> None:
    both = _apply(_apply(None, _config(replicas=3)), _config(replicas=3), "you")
    assert ".spec.replicas" in _owned(both, "me") & _owned(both, "you")
    assert _apply(both, _config(replicas=None))["spec"]["replicas"] == 3


def test_a_port_without_a_protocol_is_the_tcp_port() -> None:
    service = {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": "d"},
        "spec": {"ports": [{"port": 80, "name": "web"}]},
    }
    write = _write("me", "Service", "v1")
    first = writes.apply(write, None, json.dumps(service).encode()).object
    service["spec"]["ports"][0]["name"] = "http"  # type: ignore[index]
    second = writes.apply(write, first, json.dumps(service).encode()).object
    (port,) = second["spec"]["ports"]
    assert (port["name"], port["protocol"], port["targetPort"]) == ("http", "TCP", 80)


def test_status_writes_are_not_tracked() -> None:
    first = _apply(None, _config())
    body = first | {"status": {"replicas": 3}}
    new = writes.update(_write("controller", sub="status"), first, body)
    assert new["metadata"]["managedFields"] == first["metadata"]["managedFields"]


@pytest.mark.parametrize(
    ("write", "body", "code"),
    [
        (_write(""), _config(), 422),
        (_write("me", sub="status"), _config(), 400),
        (_write("me"), _config() | {"metadata": {"name": "d", "managedFields": [{}]}}, 400),
        (_write("me"), _config() | {"metadata": {"name": "other"}}, 400),
        (_write("me"), _config() | {"kind": "Pod"}, 400),
        (_write("me"), _config(replicas=-1), 422),
    ],
)
def test_an_apply_that_makes_no_sense_is_refused(
    write: Write, body: dict[str, Any], code: int
) -> None:
    first = _apply(None, _config())
    with pytest.raises(ApiError) as refused:
        writes.apply(write, first, json.dumps(body).encode())
    assert refused.value.code == code


_ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])


@given(st.sets(st.lists(_ELEMENTS, min_size=1, max_size=4).map(tuple)))
def test_fields_v1_is_the_same_set_written_otherwise(paths: set[fields.Path]) -> None:
    assert fields.decode(fields.encode(paths)) == paths


def test_fields_v1_marks_members_that_have_members() -> None:
    paths = {("f:a",), ("f:a", "f:b"), ("f:c", "f:d")}
    assert fields.encode(paths) == {"f:a": {".": {}, "f:b": {}}, "f:c": {"f:d": {}}}


def test_garbage_in_managed_fields_owns_nothing() -> None:
    obj = {"metadata": {"managedFields": [{"manager": "m", "fieldsV1": 3}, {}]}}
    assert [owner.fields for owner in managed.owners(obj)] == [frozenset(), frozenset()]


def test_lists_that_are_sets_and_atomic_lists() -> None:
    obj = _config() | {"metadata": {"finalizers": ["x/a", "x/b"]}}
    found = {fields.text(path) for path in fields.leaves(obj)}
    assert {'.metadata.finalizers[="x/a"]', '.metadata.finalizers[="x/b"]'} <= found
    without = fields.without(obj, [("f:metadata", "f:finalizers", 'v:"x/a"')])
    assert without["metadata"] == {"finalizers": ["x/b"]}
