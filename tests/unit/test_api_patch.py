"""Patches: four media types, and the rules of a strategic merge."""

from __future__ import annotations

import contextlib
import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.api.codec import FieldValidation
from labnet.api.patch import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    merge_patch,
    patched,
)
from labnet.api.status import ApiError
from labnet.errors import LabnetError

POD: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p", "labels": {"a": "1", "b": "2"}, "finalizers": ["x/a", "x/b"]},
    "spec": {
        "containers": [
            {"name": "web", "image": "nginx", "env": [{"name": "A", "value": "1"}]},
            {"name": "side", "image": "busybox"},
        ],
        "tolerations": [{"key": "k", "operator": "Exists"}],
    },
}


def _patched(patch: Any, media: str = STRATEGIC_PATCH, of: dict[str, Any] | None = None) -> Any:
    current = POD if of is None else of
    before = deepcopy(current)
    result = patched(current, json.dumps(patch).encode(), media, FieldValidation.STRICT)
    assert current == before, "the current object was changed"
    return result.object


def _refused(patch: Any, media: str, *, code: int, of: dict[str, Any] | None = None) -> str:
    with pytest.raises(ApiError) as refused:
        _patched(patch, media, of)
    assert refused.value.code == code
    return refused.value.message


def _containers(patch: Any) -> list[str]:
    return [c["name"] for c in _patched({"spec": patch})["spec"]["containers"]]


def test_containers_merge_by_name() -> None:
    spec = _patched({"spec": {"containers": [{"name": "side", "image": "busybox:2"}]}})["spec"]
    assert [c["image"] for c in spec["containers"]] == ["nginx", "busybox:2"]
    assert spec["tolerations"] == POD["spec"]["tolerations"]


def test_a_new_container_comes_first_unless_an_order_is_given() -> None:
    new = {"name": "new", "image": "x"}
    assert _containers({"containers": [new]}) == ["new", "web", "side"]
    order = [{"name": "web"}, {"name": "new"}]
    patch = {"containers": [new], "$setElementOrder/containers": order}
    assert _containers(patch) == ["web", "new", "side"]


def test_an_order_alone_reorders() -> None:
    order = [{"name": "side"}, {"name": "web"}]
    assert _containers({"$setElementOrder/containers": order}) == ["side", "web"]


def test_a_container_is_deleted_by_directive() -> None:
    patch = {"containers": [{"name": "web", "$patch": "delete"}]}
    assert _containers(patch) == ["side"]
    assert _containers({"containers": [{"name": "gone", "$patch": "delete"}]}) == ["web", "side"]


def test_a_list_is_replaced_by_directive() -> None:
    patch = {"containers": [{"name": "one", "image": "x"}, {"$patch": "replace"}]}
    assert _containers(patch) == ["one"]


def test_a_map_is_replaced_or_emptied_by_directive() -> None:
    replaced = _patched({"metadata": {"labels": {"$patch": "replace", "c": "3"}}})
    assert replaced["metadata"]["labels"] == {"c": "3"}
    emptied = _patched({"metadata": {"labels": {"$patch": "delete"}}})
    assert emptied["metadata"]["labels"] == {}


def test_null_deletes_a_field_and_a_label() -> None:
    result = _patched({"metadata": {"labels": {"a": None}}, "spec": {"tolerations": None}})
    assert result["metadata"]["labels"] == {"b": "2"}
    assert "tolerations" not in result["spec"]


def test_a_list_without_a_merge_key_is_replaced() -> None:
    result = _patched({"spec": {"tolerations": [{"key": "other"}]}})
    assert result["spec"]["tolerations"] == [{"key": "other"}]


def test_plain_values_merge_as_a_set_and_are_deleted_by_directive() -> None:
    added = _patched({"metadata": {"finalizers": ["x/c", "x/a"]}})
    assert sorted(added["metadata"]["finalizers"]) == ["x/a", "x/b", "x/c"]
    removed = _patched({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}})
    assert removed["metadata"]["finalizers"] == ["x/b"]


def test_retain_keys_clears_what_a_union_no_longer_holds() -> None:
    deployment = {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": "d"},
        "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
    }
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert _patched(patch, of=deployment)["spec"]["strategy"] == {"type": "Recreate"}
    stray = {"spec": {"strategy": {"$retainKeys": ["x"], "type": "Recreate"}}}
    assert "superset" in _refused(stray, STRATEGIC_PATCH, code=422, of=deployment)


def test_nulls_and_directives_do_not_end_up_in_new_parts() -> None:
    patch: dict[str, Any] = {
        "spec": {"containers": [{"name": "n", "image": "x", "env": [], "ports": None}]}
    }
    assert _patched(patch)["spec"]["containers"][0] == {"name": "n", "image": "x", "env": []}
    labels = {"metadata": {"annotations": {"$patch": "merge", "a": "b"}}}
    assert _patched(labels)["metadata"]["annotations"] == {"a": "b"}


def test_a_patch_that_changes_nothing_gives_an_equal_object() -> None:
    order = [{"name": "web"}, {"name": "side"}]
    same = {"spec": {"$setElementOrder/containers": order, "containers": [{"name": "web"}]}}
    assert _patched(same) == POD
    assert _patched({}) == POD


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"containers": [{"image": "x"}]}},
        {"spec": {"containers": ["x"]}},
        {"metadata": {"$patch": "explode"}},
        {"spec": {"$setElementOrder/containers": {}, "containers": []}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}},
        {"metadata": {"labels": {"$retainKeys": 1}}},
        {"kind": "Service"},
        {"apiVersion": None},
    ],
)
def test_a_patch_that_contradicts_the_schema_is_refused(patch: Any) -> None:
    _refused(patch, STRATEGIC_PATCH, code=422)


def test_unknown_fields_are_the_patchs_fault() -> None:
    message = _refused({"spec": {"foo": 1}}, MERGE_PATCH, code=422)
    assert message.startswith('"" is invalid: patch: Invalid value: ') or "patch: " in message
    assert message.endswith('strict decoding error: unknown field "spec.foo"')
    warned = patched(POD, b'{"spec":{"foo":1}}', MERGE_PATCH)
    assert (warned.object, warned.warnings) == (POD, ('unknown field "spec.foo"',))


def test_a_merge_patch_replaces_lists_whole() -> None:
    result = _patched({"spec": {"containers": [{"name": "one"}]}}, MERGE_PATCH)
    assert result["spec"]["containers"] == [{"name": "one"}]


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [  # RFC 7386, appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_rfc_7386(target: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(target, patch) == expected


def test_json_patch_operations_run_in_order() -> None:
    operations = [
        {"op": "test", "path": "/metadata/labels/a", "value": "1"},
        {"op": "add", "path": "/metadata/labels/c~1d", "value": "3"},
        {"op": "remove", "path": "/spec/containers/1"},
    ]
    result = _patched(operations, JSON_PATCH)
    assert result["metadata"]["labels"] == {"a": "1", "b": "2", "c/d": "3"}
    assert len(result["spec"]["containers"]) == 1


def test_a_failed_test_says_which_value() -> None:
    operations = [{"op": "test", "path": "/metadata/labels/a", "value": "2"}]
    message = _refused(operations, JSON_PATCH, code=422)
    assert message.endswith("testing value /metadata/labels/a failed")


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({}, 400),
        ([{"op": "remove", "path": "/nope"}], 422),
        ([{"op": "explode", "path": "/spec"}], 422),
        ([{"path": "/spec"}], 422),
        (["x"], 422),
        ([{"op": "replace", "path": "", "value": 3}], 422),
        ([{"op": "test", "path": "", "value": 3}] * 10001, 413),
    ],
)
def test_a_json_patch_that_cannot_be_applied(patch: Any, code: int) -> None:
    _refused(patch, JSON_PATCH, code=code)


@pytest.mark.parametrize("media", ["application/json", "", APPLY_PATCH])
def test_another_media_type_is_refused_with_415(media: str) -> None:
    _refused({}, media, code=415)


_PATCHES = st.recursive(
    st.none() | st.integers() | st.sampled_from(["", "web", "delete", "replace", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "spec",
                    "metadata",
                    "labels",
                    "containers",
                    "name",
                    "image",
                    "$patch",
                    "$retainKeys",
                    "$setElementOrder/containers",
                    "$deleteFromPrimitiveList/finalizers",
                    "op",
                    "path",
                    "value",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_PATCHES, st.sampled_from([JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH]))
def test_any_patch_applies_or_is_a_labnet_error(patch: Any, media: str) -> None:
    with contextlib.suppress(LabnetError):
        _patched(patch, media)


@given(st.binary(), st.sampled_from([JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH]))
def test_any_bytes_apply_or_are_a_labnet_error(body: bytes, media: str) -> None:
    with contextlib.suppress(LabnetError):
        patched(POD, body, media)


@given(
    st.permutations(["a", "b", "c"]),
    st.permutations(["a", "b", "c"]),
    st.sets(st.sampled_from(["a", "b", "c"])),
)
def test_the_result_has_the_order_the_patch_asks_for(
    before: list[str], wanted: list[str], changed: set[str]
) -> None:
    pod = POD | {"spec": {"containers": [{"name": n, "image": "x"} for n in before]}}
    patch: dict[str, Any] = {
        "spec": {
            "$setElementOrder/containers": [{"name": n} for n in wanted],
            "containers": [{"name": n, "image": "y"} for n in sorted(changed)],
        }
    }
    containers = _patched(patch, of=pod)["spec"]["containers"]
    assert [c["name"] for c in containers] == wanted
    assert {c["name"] for c in containers if c["image"] == "y"} == changed
