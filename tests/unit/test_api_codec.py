"""Request bodies: three encodings, strictness, and the messages of a real server."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.api.codec import (
    JSON,
    YAML,
    Decoded,
    FieldValidation,
    decode,
    decode_options,
    field_validation,
)
from labnet.api.status import ApiError
from labnet.errors import LabnetError

CONFIG_MAP = {
    "kind": "ConfigMap",
    "apiVersion": "v1",
    "metadata": {"name": "c"},
    "data": {"a": "b"},
}


def _decode(body: Any, validation: FieldValidation = FieldValidation.STRICT) -> Decoded:
    text = body if isinstance(body, str) else json.dumps(body)
    return decode(text.encode(), JSON, "v1", "ConfigMap", validation)


def _message(body: Any, api_version: str = "v1", kind: str = "ConfigMap") -> str:
    text = body if isinstance(body, str) else json.dumps(body)
    with pytest.raises(ApiError) as refused:
        decode(text.encode(), JSON, api_version, kind, FieldValidation.STRICT)
    assert refused.value.code == 400
    return refused.value.message


def test_json_yaml_and_no_content_type_give_the_same() -> None:
    yaml = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\ndata: {a: b}\n"
    assert decode(yaml, YAML, "v1", "ConfigMap").object == CONFIG_MAP
    assert decode(json.dumps(CONFIG_MAP).encode(), "", "v1", "ConfigMap").object == CONFIG_MAP


def test_another_media_type_is_refused_with_415() -> None:
    with pytest.raises(ApiError) as refused:
        decode(b"{}", "text/html", "v1", "ConfigMap")
    assert refused.value.code == 415


def test_kind_and_version_come_from_the_url_where_the_body_lacks_them() -> None:
    assert _decode({"metadata": {"name": "c"}}).object["kind"] == "ConfigMap"


def test_another_kind_or_version_is_refused() -> None:
    assert "cannot be handled as a ConfigMap" in _message({"kind": "Pod"})
    assert "does not match the expected API version (v1)" in _message({"apiVersion": "v2"})


def test_an_unknown_field_is_an_error_a_warning_or_nothing() -> None:
    body = CONFIG_MAP | {"datas": {}}
    expected = (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
        'strict decoding error: unknown field "datas"'
    )
    assert _message(body) == expected
    warned = _decode(body, FieldValidation.WARN)
    assert (warned.object, warned.warnings) == (CONFIG_MAP, ('unknown field "datas"',))
    assert _decode(body, FieldValidation.IGNORE) == Decoded(CONFIG_MAP)


def test_a_field_written_twice_is_named_with_its_path() -> None:
    text = '{"metadata":{"name":"c","name":"d"},"data":{"a":"b","a":"c"}}'
    assert 'duplicate field "metadata.name", duplicate field "data.a"' in _message(text)
    assert _decode(text, FieldValidation.WARN).object["metadata"]["name"] == "d"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"spec": {"ports": [{"port": "x"}]}},
            "json: cannot unmarshal string into Go struct field "
            "ServicePort.spec.ports.port of type int32",
        ),
        (
            {"spec": {"ports": {}}},
            "json: cannot unmarshal object into Go struct field "
            "ServiceSpec.spec.ports of type []v1.ServicePort",
        ),
        (
            {"spec": []},
            "json: cannot unmarshal array into Go struct field Service.spec of type v1.ServiceSpec",
        ),
        (
            {"metadata": {"labels": {"a": True}}},
            "json: cannot unmarshal bool into Go struct field "
            "ObjectMeta.metadata.labels of type string",
        ),
        (
            {"spec": {"ports": [{"port": 1.5}]}},
            "json: cannot unmarshal number 1.5 into Go struct field "
            "ServicePort.spec.ports.port of type int32",
        ),
        (
            {"spec": {"selector": []}},
            "json: cannot unmarshal array into Go struct field "
            "ServiceSpec.spec.selector of type map[string]string",
        ),
    ],
)
def test_a_wrong_type_is_told_as_go_tells_it(body: Any, expected: str) -> None:
    assert _message(body, kind="Service").endswith(expected)


def test_a_quantity_has_to_look_like_one() -> None:
    spec = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1x"}}}]}
    assert "quantities must match the regular expression" in _message({"spec": spec}, kind="Pod")
    spec["containers"][0]["resources"]["limits"]["cpu"] = 1  # type: ignore[index]
    body = json.dumps({"spec": spec}).encode()
    (container,) = decode(body, JSON, "v1", "Pod").object["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "1"}


def test_null_is_as_good_as_absent() -> None:
    assert _decode(CONFIG_MAP | {"binaryData": None}).object == CONFIG_MAP


@pytest.mark.parametrize("body", ["", "{", "[]", "3", '"x"', "nul", "NaN", '{"kind":3}'])
def test_what_is_no_object_is_a_bad_request(body: str) -> None:
    assert "couldn't get version/kind" in _message(body)


def test_yaml_that_is_none_is_a_bad_request() -> None:
    for text in (b"a: [", b"- a", b"x: &a [*a]", b"\x00"):
        with pytest.raises(ApiError):
            decode(text, YAML, "v1", "ConfigMap")


def test_field_validation_knows_three_words() -> None:
    assert field_validation("") is FieldValidation.WARN
    assert field_validation("Ignore") is FieldValidation.IGNORE
    with pytest.raises(ApiError, match="Unsupported value"):
        field_validation("Loose")


def test_delete_options_may_be_absent_or_of_any_group() -> None:
    assert decode_options(b"", "") == {}
    body = {"kind": "DeleteOptions", "apiVersion": "policy/v1", "gracePeriodSeconds": 0}
    assert decode_options(json.dumps(body).encode(), JSON)["gracePeriodSeconds"] == 0


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "metadata", "spec", "labels", "ports", "port", "containers", "x"]
            ),
            inner,
        )
    ),
)


@given(_JSON, st.sampled_from(["Pod", "Service", "Nope"]))
def test_any_json_decodes_or_is_a_labnet_error(body: Any, kind: str) -> None:
    with contextlib.suppress(LabnetError):
        decode(json.dumps(body).encode(), JSON, "v1", kind, FieldValidation.STRICT)


@given(st.binary(), st.sampled_from([JSON, YAML]))
def test_any_bytes_decode_or_are_a_labnet_error(body: bytes, media: str) -> None:
    try:
        decode(body, media, "v1", "Pod")
        decode_options(body, media)
    except LabnetError:
        pass


def test_decoding_twice_changes_nothing() -> None:
    once = _decode(CONFIG_MAP | {"x": 1}, FieldValidation.IGNORE).object
    assert _decode(once).object == once
