"""What the zygote is asked and answers survives the way through JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.errors import LabnetError, NotFound, Unavailable, Unsupported
from labnet.sandbox import protocol
from labnet.sandbox.spec import (
    ComponentSpec,
    ContainerSpec,
    ExecSpec,
    Exit,
    Mount,
    Process,
    SandboxSpec,
)
from labnet.sandbox.zygote import HostSpec

CONTAINER = ContainerSpec(
    id="uid/nginx/0",
    node="node1",
    sandbox="uid/0",
    argv=("nginx", "-g", "daemon off;"),
    program="web:main",
    env=(("PATH", "/bin"), ("EMPTY", "")),
    mounts=(
        Mount("bind", "/usr", "/usr", ("ro", "nodev")),
        Mount("file", "/etc/hosts", content="127.0.0.1\tlocalhost\n"),
    ),
    capabilities=("CHOWN",),
    run_as_user=101,
)


@pytest.mark.parametrize(
    "value",
    [
        CONTAINER,
        SandboxSpec("uid/0", "node1", "web", sysctls=(("net.ipv4.ip_forward", "1"),)),
        ExecSpec(("ls", "-l"), container="uid/nginx/0", tty=True),
        ComponentSpec("kubelet@node1", "node1", entry="a:b", config={"port": 10250, "x": [None]}),
        HostSpec("client", node=False, etc_hosts="127.0.0.1 localhost\n", keep=("/opt/etcd",)),
        Process("uid/0", "sandbox", "node1", 7, "2026-01-01T00:00:00.000000Z"),
        Process("x", "exec", "node1", 0, "then", exit=Exit(137, 9, "later"), labels=(("a", "b"),)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    message = protocol.load(protocol.dump({"spec": protocol.plain(value)}))
    assert protocol.parse(type(value), message["spec"]) == value


@given(
    st.text(),
    st.lists(st.text()),
    st.lists(st.tuples(st.text(), st.text())),
    st.none() | st.integers(0, 2**32 - 1),
)
def test_any_text_survives(
    text: str, words: list[str], env: list[tuple[str, str]], user: int | None
) -> None:
    spec = ContainerSpec(
        text, text, text, tuple(words), env=tuple(env), run_as_user=user,
        mounts=(Mount("file", text, content=text),),
    )  # fmt: skip
    request = protocol.load(protocol.request("container", spec=spec))
    assert request["verb"] == "container"
    assert protocol.parse(ContainerSpec, request["spec"]) == spec


def test_defaults_are_not_sent() -> None:
    assert protocol.plain(ExecSpec(("true",), host="node1")) == {"argv": ["true"], "host": "node1"}


@pytest.mark.parametrize("kind", [NotFound, Unavailable, Unsupported, LabnetError])
def test_an_error_is_raised_at_the_caller_as_what_it_was(kind: type[LabnetError]) -> None:
    sent = protocol.dump(protocol.error_message(kind("no such pod", hint="look again")))
    with pytest.raises(kind, match="no such pod") as caught:
        protocol.result(sent)
    assert type(caught.value) is kind
    assert caught.value.hint == "look again"


def test_an_error_of_the_system_names_its_object() -> None:
    message = protocol.error_message(FileNotFoundError(2, "No such file or directory", "/x"))
    assert protocol.error_from(message["error"]).message == "/x: No such file or directory"


def test_an_unforeseen_error_keeps_its_type_in_the_message() -> None:
    message = protocol.error_message(ZeroDivisionError("division by zero"))
    assert protocol.error_from(message["error"]).message == "ZeroDivisionError: division by zero"


def test_an_error_of_an_unknown_kind_is_still_a_labnet_error() -> None:
    error = protocol.error_from({"kind": "annotations", "message": "odd"})
    assert type(error) is LabnetError


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ({"id": "x", "colour": 1}, "has no field colour"),
        ({"id": "x"}, "missing"),
        ([], "an object was expected"),
    ],
)
def test_a_request_of_the_wrong_shape_is_refused(found: object, complaint: str) -> None:
    with pytest.raises(LabnetError, match=complaint):
        protocol.parse(SandboxSpec, found)


@pytest.mark.parametrize("datagram", [b"", b"not json", b"[]", b"\xff"])
def test_what_is_no_message_is_refused(datagram: bytes) -> None:
    with pytest.raises(LabnetError, match="not a message"):
        protocol.load(datagram)
