"""The kubelet's server: whom it lets in, logs, exec over WebSocket."""

from __future__ import annotations

import json
import os
import select
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labnet.node.kubelet import websocket
from labnet.node.runtime import logs
from labnet.node.runtime.logs import Writer
from tests.unit.kubelet_client import ServedNode, executing

LOGS = "/containerLogs/default/web/web"


@pytest.fixture
def node(tmp_path: Path) -> ServedNode:
    return ServedNode(tmp_path)


@pytest.fixture
def port(node: ServedNode) -> Iterator[int]:
    node.create()
    with node.served() as port:
        yield port


def writer(node: ServedNode, attempt: int = 0) -> Writer:
    process = node.runtime.processes()[1 + attempt]
    return Writer(logs.path_of_process(node.state / "log", process), node.clock)


# -- who may ask ---------------------------------------------------------------------------


def test_the_api_server_may_ask(node: ServedNode, port: int) -> None:
    assert node.get(port, "/healthz") == (200, "ok")
    _, body = node.get(port, "/pods")
    assert [p["metadata"]["name"] for p in json.loads(body)["items"]] == ["web"]


def test_nobody_else_of_the_cluster_may(node: ServedNode, port: int) -> None:
    assert node.get(port, "/pods", "other")[0] == 401
    assert node.get(port, "/healthz", "other")[0] == 401


def test_without_a_certificate_the_handshake_fails(node: ServedNode, port: int) -> None:
    with closing(node.connect(port, "")) as sock, pytest.raises((ssl.SSLError, OSError)):
        assert sock.recv(1), "a TLS 1.3 client learns of the refusal when it reads"


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/nonsense", 404, "not found"),
        ("/containerLogs/default/gone/web", 404, 'pod "gone" does not exist'),
        ("/containerLogs/default/web/gone", 404, 'container "gone" not found in pod "web"'),
        (f"{LOGS}?previous=true", 400, "previous terminated container"),
        (f"{LOGS}?tailLines=x", 400, "tailLines must be a number"),
        (f"{LOGS}?sinceTime=x", 400, "no RFC 3339 time"),
        ("/exec/default/web/web?command=ls", 400, "unable to upgrade"),
        ("/attach/default/web/web", 501, "attach is not supported"),
    ],
)
def test_a_wrong_request_is_answered_with_a_reason(
    node: ServedNode, port: int, path: str, status: int, words: str
) -> None:
    code, body = node.get(port, path)
    assert code == status
    assert words in body


# -- logs ----------------------------------------------------------------------------------


def test_logs_are_what_the_container_wrote(node: ServedNode, port: int) -> None:
    with closing(writer(node)) as out:
        out.write("stdout", b"one\ntwo\n")
        out.write("stderr", b"three\n")
    assert node.get(port, LOGS) == (200, "one\ntwo\nthree\n")
    assert node.get(port, f"{LOGS}?tailLines=1") == (200, "three\n")
    assert node.get(port, f"{LOGS}?limitBytes=5") == (200, "one\nt")
    assert node.get(port, f"{LOGS}?timestamps=true&tailLines=1")[1] == (
        "2026-01-01T00:00:00.000000000Z three\n"
    )


def test_logs_since_a_moment(node: ServedNode, port: int) -> None:
    with closing(writer(node)) as out:
        out.write("stdout", b"early\n")
        node.clock.advance(60)
        out.write("stdout", b"late\n")
    assert node.get(port, f"{LOGS}?sinceSeconds=30") == (200, "late\n")
    assert node.get(port, f"{LOGS}?sinceTime=2026-01-01T00:00:30Z") == (200, "late\n")


def test_logs_of_the_run_before(node: ServedNode, port: int) -> None:
    with closing(writer(node)) as out:
        out.write("stdout", b"first\n")
    node.end("web", 1)
    with closing(writer(node, 1)) as out:
        out.write("stdout", b"second\n")
    assert node.get(port, LOGS) == (200, "second\n")
    assert node.get(port, f"{LOGS}?previous=true") == (200, "first\n")


def test_logs_of_a_container_that_is_not_there_yet_say_why(node: ServedNode) -> None:
    node.create(containers=[{"name": "web", "image": "postgres"}])
    with node.served() as port:
        assert node.get(port, LOGS) == (
            400,
            'container "web" in pod "web" is waiting to start: ErrImagePull\n',
        )


def test_following_ends_with_the_log(node: ServedNode, port: int) -> None:
    with closing(writer(node)) as out:
        out.write("stdout", b"all\n")
    assert node.get(port, f"{LOGS}?follow=true") == (200, "all\n")


# -- exec ----------------------------------------------------------------------------------


def test_exec_separates_the_streams_and_returns_the_code(node: ServedNode, port: int) -> None:
    with executing(
        node, port, "sh", "-c", "echo out; echo err >&2; exit 3", output=1, error=1
    ) as run:
        status = run.run()
    assert run.channels[1] == b"out\n"
    assert run.channels[2] == b"err\n"
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


def test_exec_that_succeeds_says_so(node: ServedNode, port: int) -> None:
    with executing(node, port, "true", output=1, protocol="v4.channel.k8s.io") as run:
        assert run.run() == {"metadata": {}, "status": "Success"}


def test_exec_feeds_stdin_until_it_is_closed(node: ServedNode, port: int) -> None:
    with executing(node, port, "cat", input=1, output=1) as run:
        run.send(0, b"hello ")
        run.send(0, b"there")
        run.send(255, b"\0")
        assert run.run()["status"] == "Success"
    assert run.channels[1] == b"hello there"


def test_megabytes_go_in_and_out_at_the_same_time(node: ServedNode, port: int) -> None:
    block = bytes(range(256)) * 400
    with executing(node, port, "cat", input=1, output=1) as run:
        run.send_all([(0, block)] * 20 + [(255, b"\0")])
        assert run.run()["status"] == "Success"
    assert run.channels[1] == block * 20


def test_input_that_nobody_reads_does_not_hold_the_end_up(node: ServedNode, port: int) -> None:
    with executing(node, port, "true", input=1, output=1) as run:
        run.send(0, b"x" * 100_000)
        assert run.run()["status"] == "Success"


def test_pings_are_answered(node: ServedNode, port: int) -> None:
    with executing(node, port, "cat", input=1, output=1) as run:
        run.frame(websocket.PING, b"are you there")
        while not run.pongs:
            run.read()
        run.send(255, b"\0")
        run.run()
    assert run.pongs == [b"are you there"]


def test_a_command_that_is_not_there_is_an_error_with_its_name(node: ServedNode, port: int) -> None:
    with executing(node, port, "no-such-thing", output=1) as run:
        status = run.run()
    assert "executable file not found" in status["message"]
    assert status["status"] == "Failure"


def test_a_client_that_goes_away_takes_the_process_along(node: ServedNode, port: int) -> None:
    with executing(node, port, "sh", "-c", "echo $$; exec sleep 60", output=1) as run:
        while not run.channels.get(1):
            run.read()
        pid = int(run.channels[1])
        pidfd = os.pidfd_open(pid)
    assert select.select([pidfd], [], [], 10)[0]
    os.close(pidfd)


def test_a_terminal_has_the_size_it_is_given(node: ServedNode, port: int) -> None:
    script = "read x; stty size; tty >/dev/null && echo terminal"
    with executing(node, port, "sh", "-c", script, input=1, output=1, tty=1) as run:
        run.send(4, json.dumps({"Width": 123, "Height": 45}).encode())
        run.send(0, b"go\n")
        run.run()
    assert b"45 123" in run.channels[1]
    assert b"terminal" in run.channels[1]


# -- frames --------------------------------------------------------------------------------


def masked(frame: bytes, mask: bytes) -> bytes:
    """Turn a server's frame into a client's."""
    start = {126: 4, 127: 10}.get(frame[1], 2)
    payload = bytes(byte ^ mask[i % 4] for i, byte in enumerate(frame[start:]))
    return frame[:1] + bytes((frame[1] | 0x80,)) + frame[2:start] + mask + payload


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(max_size=300), max_size=5),
    st.binary(min_size=4, max_size=4),
    st.integers(1, 50),
)
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    payloads: list[bytes], mask: bytes, step: int
) -> None:
    data = b"".join(masked(websocket.encode(websocket.BINARY, p), mask) for p in payloads)
    reader = websocket.Reader()
    found = [
        frame.payload
        for start in range(0, len(data), step)
        for frame in reader.feed(data[start : start + step])
    ]
    assert found == payloads


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536])
def test_every_length_has_its_form(size: int) -> None:
    frame = masked(websocket.encode(websocket.BINARY, b"x" * size), b"abcd")
    assert websocket.decode(frame) == (websocket.Frame(websocket.BINARY, b"x" * size), len(frame))


def test_a_message_may_come_in_parts_with_a_ping_between() -> None:
    first = masked(bytes((websocket.BINARY, 2)) + b"he", b"abcd")
    ping = masked(websocket.encode(websocket.PING, b""), b"abcd")
    last = masked(websocket.encode(websocket.CONTINUATION, b"y"), b"abcd")
    opcodes = [(f.opcode, f.payload) for f in websocket.Reader().feed(first + ping + last)]
    assert opcodes == [(websocket.PING, b""), (websocket.BINARY, b"hey")]


def test_an_unmasked_or_endless_frame_is_refused() -> None:
    with pytest.raises(websocket.ProtocolError):
        websocket.decode(websocket.encode(websocket.BINARY, b"x" * 9))
    with pytest.raises(websocket.ProtocolError):
        websocket.decode(b"\x82\xff" + b"\x7f" * 8 + b"mask")
