"""What a row of probe results means, when the next one is due, and what a probe says."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.node.kubelet.checks import http_get, tcp_connect
from labnet.node.kubelet.probes import Track, active, due, health, recorded, tracks
from labnet.sandbox.pod import Action, Container, Probe

LATE = 1000.0  # long after the start, when nothing is forgiven any more
HTTP = Action("httpGet", port=80)


def track(kind: str, **probe: float) -> Track:
    fields = {"period": 10.0, "failure_threshold": 3, "success_threshold": 1} | probe
    return Track(kind, Probe(HTTP, **fields), 0.0, 0.0)  # type: ignore[arg-type]


def after(of: Track, *results: bool, start: float = LATE) -> Track:
    for number, result in enumerate(results):
        of = recorded(of, result, start + number)
    return of


def test_a_container_is_unready_and_alive_before_anything_was_asked() -> None:
    found = health((track("Readiness"), track("Liveness")))
    assert (found.started, found.ready, found.failed) == (True, False, "")


def test_a_container_without_probes_is_healthy() -> None:
    assert health(()).ready
    assert tracks(Container("web", "nginx"), 0.0) == ()


@pytest.mark.parametrize(
    ("results", "ready"),
    [
        ((True,), True),
        ((True, False, False), True),
        ((True, False, False, False), False),
        ((True, False, False, True, False, False), True),
        ((False,) * 3 + (True,), True),
    ],
)
def test_only_a_row_of_failures_takes_readiness_away(
    results: tuple[bool, ...], ready: bool
) -> None:
    assert health((after(track("Readiness"), *results),)).ready is ready


def test_a_success_threshold_counts_successes_in_a_row() -> None:
    probe = track("Readiness", success_threshold=2)
    assert not health((after(probe, True, False, True),)).ready
    assert health((after(probe, True, False, True, True),)).ready


def test_the_startup_probe_is_asked_alone_until_it_succeeds() -> None:
    startup, liveness = track("Startup"), track("Liveness")
    assert active((startup, liveness)) == (startup,)
    assert not health((startup, liveness)).started
    done = after(startup, True)
    assert active((done, liveness)) == (liveness,)
    assert health((done, liveness)).started


def test_a_startup_probe_that_gives_up_ends_the_container() -> None:
    given_up = after(track("Startup", failure_threshold=2), False, False)
    assert health((given_up,)).failed == "Startup"
    assert active((given_up, track("Liveness"))) == ()


def test_the_initial_delay_is_kept_and_the_period_after_it() -> None:
    probe = Probe(HTTP, initial_delay=5.0, period=2.0)
    (found,) = tracks(Container("web", "nginx", readiness=probe), 100.0)
    assert due((found,), 104.9) == ()
    assert due((found,), 105.0) == (found,)
    assert recorded(found, True, 105.0).next_run == pytest.approx(107.0)


def test_a_server_that_does_not_listen_yet_is_asked_again_soon() -> None:
    (found,) = tracks(Container("web", "nginx", readiness=Probe(HTTP)), 0.0)
    pauses, now = [], found.next_run
    for _ in range(6):
        found = recorded(found, False, now)
        pauses.append(found.next_run - now)
        now = found.next_run
    assert pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4])
    assert found.row == 0
    assert recorded(found, False, now).row == 1


def test_a_liveness_probe_forgives_nothing() -> None:
    assert after(track("Liveness"), False, False, False, start=0.0).verdict is False


@given(st.lists(st.booleans(), max_size=30), st.integers(1, 5), st.integers(1, 5))
def test_the_verdict_is_that_of_the_last_long_enough_row(
    results: list[bool], successes: int, failures: int
) -> None:
    found = after(
        track("Readiness", success_threshold=successes, failure_threshold=failures), *results
    )
    expected, row = None, 0
    for number, result in enumerate(results):
        row = row + 1 if number and results[number - 1] == result else 1
        if row >= (successes if result else failures):
            expected = result
    assert found.verdict is expected


# -- what is asked -------------------------------------------------------------------------


@contextmanager
def answering(answer: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """A server on loopback that says ``answer`` to one client."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                heard.append(sock.recv(4096))
                sock.sendall(answer)

        thread = Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], heard
        thread.join(5)


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", None),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", None),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "HTTP probe failed with statuscode: 404"),
        (b"HTTP/1.1 503\r\n\r\n", "HTTP probe failed with statuscode: 503"),
        (b"nonsense", "malformed HTTP response"),
    ],
)
def test_an_http_probe_succeeds_with_200_to_399(answer: bytes, output: str | None) -> None:
    with answering(answer) as (port, heard):
        outcome = http_get(
            Action("httpGet", port=port, path="/ok", headers=(("X-A", "b"),)), "127.0.0.1", 5
        )
    assert (outcome.ok, outcome.output) == (output is None, output or "")
    assert heard[0].startswith(b"GET /ok HTTP/1.1\r\n")
    assert b"User-Agent: kube-probe/" in heard[0]
    assert b"X-A: b\r\n" in heard[0]


def test_a_refused_probe_says_so_as_go_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    outcome = http_get(Action("httpGet", port=port), "127.0.0.1", 1)
    assert outcome.output == (
        f'Get "http://127.0.0.1:{port}/": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )
    assert not tcp_connect(Action("tcpSocket", port=port), "127.0.0.1", 1).ok


def test_a_probe_of_a_silent_server_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        outcome = http_get(Action("httpGet", port=port), "127.0.0.1", 0.02)
        assert tcp_connect(Action("tcpSocket", port=port), "127.0.0.1", 1).ok
    assert "timeout" in outcome.output
