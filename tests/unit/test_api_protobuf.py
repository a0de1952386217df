"""Protobuf bodies: what kubectl sent, decoded; and garbage, refused.

``tests/golden/api/protobuf`` has bodies that kubectl 1.37 sent, with what
``--dry-run=client -o json`` printed for the same command line
(``tests/api/test_kubectl_protobuf.py`` compares the two with the kubectl at hand).
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.api.protobuf import MAGIC, decode, message_name
from labnet.api.status import ApiError
from labnet.errors import LabnetError

GOLDEN = Path(__file__).parent.parent / "golden" / "api" / "protobuf"
BODIES = sorted(GOLDEN.glob("*.bin"))


@pytest.mark.parametrize("path", BODIES, ids=lambda path: path.stem)
def test_a_body_of_kubectl_decodes_to_what_its_dry_run_prints(path: Path) -> None:
    assert decode(path.read_bytes()) == json.loads(path.with_suffix(".json").read_text())


def test_there_are_bodies_of_all_sorts() -> None:
    assert len(BODIES) >= 15


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _body(api_version: str, kind: str, raw: bytes) -> bytes:
    meta = _field(1, api_version.encode()) + _field(2, kind.encode())
    return MAGIC + _field(1, meta) + _field(2, raw)


def test_a_zero_behind_a_pointer_is_kept_and_another_is_not() -> None:
    spec = _field(1, 0) + _field(5, 0)  # replicas is a pointer, minReadySeconds is not
    decoded = decode(_body("apps/v1", "Deployment", _field(2, spec)))
    assert decoded["spec"] == {"replicas": 0}


def test_negative_numbers_times_and_unions() -> None:
    port = _field(3, 80) + _field(4, _field(1, 1) + _field(3, b"http"))
    seconds = _field(8, _field(1, 1767225600))
    service = _field(1, _field(1, b"s") + seconds) + _field(2, _field(1, port))
    decoded = decode(_body("v1", "Service", service))
    assert decoded["metadata"] == {"name": "s", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert decoded["spec"]["ports"] == [{"port": 80, "targetPort": "http"}]
    options = decode(_body("v1", "DeleteOptions", _field(1, -1)))
    assert options["gracePeriodSeconds"] == -1


def test_a_lease_keeps_its_microseconds() -> None:
    spec = _field(1, b"node1") + _field(4, _field(1, 1767225600) + _field(2, 250_000_000))
    lease = decode(_body("coordination.k8s.io/v1", "Lease", _field(2, spec)))
    assert lease["spec"] == {"holderIdentity": "node1", "renewTime": "2026-01-01T00:00:00.250000Z"}


def test_an_unknown_field_is_skipped() -> None:
    raw = _field(1, _field(1, b"n")) + _field(999, b"x") + _varint(998 << 3 | 1) + b"12345678"
    assert decode(_body("v1", "Namespace", raw))["metadata"] == {"name": "n"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        MAGIC,
        MAGIC + b"\xff",
        _body("v1", "Nope", b""),
        _body("v1", "Pod", b"\x0a\x7f"),
        _body("v1", "Pod", b"\x0b"),
        _body("v1", "Pod", _field(1, 3)),
        _body("v1", "Pod", _field(1, _field(1, b"\xff\xfe"))),
    ],
)
def test_garbage_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        decode(body)
    assert refused.value.code == 400


@given(st.binary())
def test_any_bytes_decode_or_are_a_labnet_error(raw: bytes) -> None:
    for body in (raw, MAGIC + raw, _body("v1", "Pod", raw), _body("apps/v1", "Deployment", raw)):
        with contextlib.suppress(LabnetError):
            decode(body)


@given(st.sampled_from(BODIES), st.data())
def test_a_damaged_body_decodes_or_is_a_labnet_error(path: Path, data: st.DataObject) -> None:
    body = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(LabnetError):
        decode(bytes(body[: data.draw(st.integers(0, len(body)))]))


def test_messages_are_found_by_group_version_and_kind() -> None:
    assert message_name("rbac.authorization.k8s.io/v1", "Role") == "api.rbac.v1.Role"
    assert (
        message_name("policy/v1", "DeleteOptions") == "apimachinery.pkg.apis.meta.v1.DeleteOptions"
    )
    assert message_name("v1", "Nope") is None
