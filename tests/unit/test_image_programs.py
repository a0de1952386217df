"""The built-in servers on loopback: what they answer, and what they put up with."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from labnet.image.programs import agnhost, connect, netexec, web
from labnet.image.programs.http import BadRequest, Request, Response, parse
from labnet.image.programs.serving import HttpService, Loop

HERE, THERE = ("10.244.1.1", 5000), ("10.244.1.10", 80)


@contextmanager
def served(start: Callable[[Loop], socket.socket]) -> Iterator[tuple[int, Loop]]:
    """Run a loop in a thread; yield the port that ``start`` listens on."""
    loop, stop = Loop(), Event()
    listener = start(loop)

    def run() -> None:
        while not stop.is_set():
            loop.step(0.02)

    thread = Thread(target=run)
    thread.start()
    try:
        yield listener.getsockname()[1], loop
    finally:
        stop.set()
        thread.join()
        listener.close()
        for connection in loop.connections.values():
            connection.sock.close()
        loop.selector.close()


@pytest.fixture
def agnhost_port() -> Iterator[int]:
    service = HttpService(netexec.answer, "agnhost")
    with served(lambda loop: loop.serve_http(0, service)) as (port, _):
        yield port


def ask(port: int, *pieces: bytes) -> bytes:
    """Send ``pieces`` one by one and read until the server closes."""
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        for piece in pieces:
            sock.sendall(piece)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def get(port: int, path: str) -> tuple[int, str]:
    """Return status and body of one GET."""
    answer = ask(port, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def request(text: bytes) -> Request:
    parsed = parse(text, HERE, THERE)
    assert parsed is not None
    return parsed[0]


# -- nginx and httpd -----------------------------------------------------------------------


def test_the_page_names_pod_node_and_both_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABNET_NODE", "node1")
    page = web.page(request(b"GET / HTTP/1.1\r\n\r\n")).body
    assert f"pod: {socket.gethostname()}\n" in page
    assert "node: node1\n" in page
    assert "server: 10.244.1.10:80\n" in page
    assert "client: 10.244.1.1\n" in page


def test_the_access_line_is_nginx_combined_format() -> None:
    asked = request(b"GET /a HTTP/1.1\r\nUser-Agent: curl/8\r\n\r\n")
    line = web.access_line(asked, Response("12345"), "01/Dec/2026:00:00:00 +0000")
    assert line == (
        '10.244.1.1 - - [01/Dec/2026:00:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl/8"'
    )


def test_one_connection_takes_many_requests_and_head_has_no_body() -> None:
    service = HttpService(lambda r: Response(r.path), "nginx")
    with served(lambda loop: loop.serve_http(0, service)) as (port, _):
        answer = ask(
            port,
            b"GET /one HTTP/1.1\r\n\r\nHEAD /two HTTP/1.1\r\n\r\n"
            b"GET /three HTTP/1.1\r\nConnection: close\r\n\r\n",
        )
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert b"\r\n\r\n/one" in answer
    assert b"\r\n\r\n/two" not in answer
    assert answer.endswith(b"\r\n\r\n/three")


def test_a_client_may_send_byte_by_byte_while_others_are_served(agnhost_port: int) -> None:
    with socket.create_connection(("127.0.0.1", agnhost_port), 5) as slow:
        slow.sendall(b"GET /echo?msg=slow HT")
        assert get(agnhost_port, "/echo?msg=fast") == (200, "fast")
        slow.sendall(b"TP/1.0\r\n\r\n")
        assert b"".join(iter(lambda: slow.recv(4096), b"")).endswith(b"\r\n\r\nslow")


def test_an_answer_larger_than_the_socket_buffer_arrives_whole() -> None:
    service = HttpService(lambda _: Response("x" * 8_000_000), "nginx")
    with served(lambda loop: loop.serve_http(0, service)) as (port, _):
        assert len(get(port, "/")[1]) == 8_000_000


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"\x16\x03\x01\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET http://[/ HTTP/1.1\r\n\r\n", 400),
        (b"A" * 20000, 431),
    ],
)
def test_what_is_no_request_gets_its_status(text: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(text, HERE, THERE)
    assert caught.value.status == status


def test_rubbish_is_answered_and_the_server_goes_on(agnhost_port: int) -> None:
    assert ask(agnhost_port, b"\0\1\2\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert get(agnhost_port, "/healthz") == (200, "")


# -- agnhost -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/hostname", 200, socket.gethostname()),
        ("/echo?msg=hello%20there", 200, "hello there"),
        ("/echo?msg=no&code=404", 404, "no"),
        ("/echo?code=x", 400, "argument 'code' must be a valid HTTP status code\n"),
        ("/healthz", 200, ""),
        ("/redirect?location=/&code=301", 301, ""),
        ("/dial?host=x", 400, "need host, port, protocol http or udp, tries\n"),
    ],
)
def test_netexec_answers(agnhost_port: int, path: str, status: int, body: str) -> None:
    assert get(agnhost_port, path) == (status, body)


def test_netexec_tells_the_time_and_the_client(agnhost_port: int) -> None:
    assert get(agnhost_port, "/")[1].startswith("NOW: 20")
    assert get(agnhost_port, "/clientip")[1].startswith("127.0.0.1:")


def test_netexec_dials_another_server_and_itself(agnhost_port: int) -> None:
    path = f"/dial?host=127.0.0.1&port={agnhost_port}&request=echo?msg=hi&tries=2"
    status, body = get(agnhost_port, path.replace("echo?msg=hi", "hostname"))
    assert status == 200
    assert json.loads(body) == {"responses": [socket.gethostname()] * 2}


def test_netexec_says_which_dial_failed(agnhost_port: int) -> None:
    status, body = get(agnhost_port, f"/dial?host=127.0.0.1&port={closed_port()}")
    assert status == 417
    assert "refused" in json.loads(body)["errors"][0]


def test_netexec_runs_a_command(agnhost_port: int) -> None:
    status, body = get(agnhost_port, "/shell?cmd=echo%20hi")
    assert (status, json.loads(body)) == (200, {"output": "hi\n"})


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"hostname\n", socket.gethostname().encode()),
        (b"clientip", b"10.244.1.1:5000"),
        (b"echo a b", b"a b"),
        (b"\xff", None),
    ],
)
def test_netexec_answers_datagrams(said: bytes, answer: bytes | None) -> None:
    assert netexec.answer_udp(said, HERE) == answer


def test_a_udp_server_answers() -> None:
    with (
        served(lambda loop: loop.serve_udp(0, netexec.answer_udp)) as (port, _),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        sock.settimeout(5)
        sock.sendto(b"echo hi", ("127.0.0.1", port))
        assert sock.recv(100) == b"hi"


def test_flags_may_be_written_in_three_ways() -> None:
    known = {"port": "1", "http": "true", "udp": "false"}
    values, rest = agnhost.flags(["--port=80", "--udp", "x", "--http=false"], known)
    assert (values, rest) == ({"port": "80", "http": "false", "udp": "true"}, ["x"])
    assert agnhost.flags(["--port", "81"], known)[0]["port"] == "81"


@pytest.mark.parametrize("argv", [["/agnhost", "nonsense"], ["/agnhost", "netexec", "--bad"]])
def test_a_wrong_command_line_is_an_error(
    argv: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert agnhost.main(argv) == 1
    assert capfd.readouterr().err.startswith("Error: unknown ")


def test_porter_serves_the_ports_of_its_environment() -> None:
    assert agnhost.ports_served({"SERVE_PORT_80": "a", "SERVE_PORT_X": "b", "HOME": "/"}) == {
        80: "a"
    }


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_connect_tells_refused_dns_and_success_apart(agnhost_port: int) -> None:
    assert connect.verdict(f"127.0.0.1:{agnhost_port}", 2, "tcp") == ""
    assert connect.verdict(f"127.0.0.1:{closed_port()}", 2, "tcp") == "REFUSED"
    assert connect.verdict("no port", 2, "tcp").startswith("OTHER")
    assert connect.verdict("name.invalid:80", 2, "tcp").startswith("DNS: ")


def test_connect_reports_a_timeout(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{silent.getsockname()[1]}"
        argv = ["/agnhost", "connect", target, "--protocol", "udp", "--timeout=20ms"]
        assert agnhost.main(argv) == 1
    assert capfd.readouterr().err == "TIMEOUT\n"


@pytest.mark.parametrize(("text", "seconds"), [("1s", 1), ("500ms", 0.5), ("1m30s", 90)])
def test_durations_are_gos(text: str, seconds: float) -> None:
    assert connect.seconds(text) == seconds


def test_what_is_no_duration_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        connect.seconds("10")
