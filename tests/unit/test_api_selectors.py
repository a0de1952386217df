"""Label and field selectors: what they match, and what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.api import resources
from labnet.api.selectors import (
    NOTHING,
    label_selector,
    match_labels,
    parse_fields,
    parse_labels,
)
from labnet.api.status import ApiError
from labnet.errors import LabnetError

_FOUND = resources.find("", "v1", "pods")
assert _FOUND is not None
PODS = _FOUND

LABELS = {"app": "web", "tier": "front", "n": "5"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , tier = front", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("missing!=x", True),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("!app", False),
        ("app in (web,db)", True),
        ("app in (db)", False),
        ("app notin (db)", True),
        ("missing notin (db)", True),
        ("app in (web),!missing,tier!=back", True),
        ("n>4", True),
        ("n<4", False),
        ("app>4", False),
        ("x in (),app", False),
        ("app=", False),
        ("missing=", False),
        ("kubernetes.io/app", False),
    ],
)
def test_a_label_selector_matches(text: str, matches: bool) -> None:
    assert parse_labels(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    "text",
    ["app in", "app in (a", "=x", "app=a b", ",", "app,,tier", "a in (b c)", "!", "n>x", "/a"],
)
def test_an_unreadable_label_selector_is_a_bad_request(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse_labels(text)
    assert refused.value.code == 400


@given(st.text())
def test_any_text_is_a_selector_or_a_labnet_error(text: str) -> None:
    try:
        parse_labels(text).matches(LABELS)
        parse_fields(PODS, text).matches(PODS, {})
    except LabnetError:
        pass


_KEYS = st.sampled_from(["a", "b", "c"])
_VALUES = st.sampled_from(["", "x", "y"])


@given(
    st.lists(st.tuples(_KEYS, st.sampled_from(["in", "notin"]), st.sets(_VALUES, min_size=1))),
    st.dictionaries(_KEYS, _VALUES),
)
def test_text_and_object_form_agree(
    terms: list[tuple[str, str, set[str]]], labels: dict[str, str]
) -> None:
    text = ",".join(f"{k} {o} ({','.join(sorted(v))})" for k, o, v in terms)
    names = {"in": "In", "notin": "NotIn"}
    expressions = [{"key": k, "operator": names[o], "values": sorted(v)} for k, o, v in terms]
    written = parse_labels(text)
    assert written.matches(labels) == label_selector({"matchExpressions": expressions}).matches(
        labels
    )


def test_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert label_selector(None) is NOTHING
    assert not NOTHING.matches({"": ""})
    assert label_selector({}).matches({})


def test_match_labels_of_a_service_without_a_selector_select_nothing() -> None:
    assert not match_labels({}).matches({})
    assert match_labels({"app": "web"}).matches(LABELS)


def test_exists_and_does_not_exist() -> None:
    there = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    absent = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    assert label_selector(there).matches(LABELS)
    assert not label_selector(absent).matches(LABELS)


POD: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"nodeName": "node1"},
    "status": {"phase": "Running", "podIPs": [{"ip": "10.244.1.2"}]},
}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=web", True),
        ("metadata.name==web,metadata.namespace=default", True),
        ("metadata.name!=web", False),
        ("spec.nodeName=node1,status.phase!=Failed", True),
        ("spec.nodeName=", False),
        ("status.podIPs=10.244.1.2", True),
        ("spec.hostNetwork=false", True),
        ("status.nominatedNodeName=", True),
    ],
)
def test_a_field_selector_matches(text: str, matches: bool) -> None:
    assert parse_fields(PODS, text).matches(PODS, POD) is matches


def test_a_field_nobody_indexes_is_a_bad_request() -> None:
    with pytest.raises(ApiError, match=r"field label not supported: spec\.foo"):
        parse_fields(PODS, "spec.foo=1")


def test_a_term_without_an_operator_is_a_bad_request() -> None:
    with pytest.raises(ApiError, match="can't understand 'web'"):
        parse_fields(PODS, "web")


def test_a_pinned_name_is_found_for_the_fast_path() -> None:
    selector = parse_fields(PODS, "metadata.name=web,status.phase!=Failed")
    assert selector.exact("metadata.name") == "web"
    assert selector.exact("status.phase") is None


def test_events_are_selected_by_what_they_are_about() -> None:
    events = resources.find("", "v1", "events")
    assert events is not None
    event = {"involvedObject": {"name": "web"}, "source": {"component": "kubelet"}}
    assert parse_fields(events, "involvedObject.name=web,source=kubelet").matches(events, event)
