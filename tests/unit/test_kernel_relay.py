"""The relay on the loopback interface: what goes in at one end comes out at the other."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address

import pytest

from labnet.kernel.relay import LinuxRelays
from labnet.plan.relay import Address
from tests.conditions import eventually

HERE = "127.0.0.1"
DEADLINE = 10.0
Serve = Callable[[socket.socket], None]


class Circle:
    """A chooser that offers servers in turn and notes whom it was asked for."""

    def __init__(self, *ports: int) -> None:
        self.servers = [(IPv4Address(HERE), port) for port in ports]
        self.asked: list[tuple[IPv4Address, Address | None]] = []

    def choose(self, client: IPv4Address, failed: Address | None = None) -> Address | None:
        self.asked.append((client, failed))
        if not self.servers:
            return None
        behind = self.servers.index(failed) + 1 if failed in self.servers else 0
        return self.servers[behind % len(self.servers)]

    def serves(self, server: Address) -> bool:
        return server in self.servers


@pytest.fixture
def relays() -> Iterator[LinuxRelays]:
    with LinuxRelays(udp_idle=DEADLINE) as made:
        yield made


@contextlib.contextmanager
def tcp_server(serve: Serve) -> Iterator[int]:
    """Serve one connection after another in a thread; give the port."""
    with socket.create_server((HERE, 0)) as listener:

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(DEADLINE)
                    serve(connection)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(DEADLINE)


@contextlib.contextmanager
def udp_server(name: bytes) -> Iterator[int]:
    """Answer every datagram with ``name``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((HERE, 0))
        ended = threading.Event()

        def run() -> None:
            while True:
                data, client = server.recvfrom(100)
                if ended.is_set():
                    return
                server.sendto(name + data, client)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            ended.set()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", server.getsockname())
            thread.join(DEADLINE)


def echo(connection: socket.socket) -> None:
    while data := connection.recv(1 << 16):
        connection.sendall(data)


def connect(port: int) -> socket.socket:
    return socket.create_connection((HERE, port), timeout=DEADLINE)


def all_of(connection: socket.socket) -> bytes:
    found = b""
    while data := connection.recv(1 << 16):
        found += data
    return found


def closed_port() -> int:
    with socket.create_server((HERE, 0)) as gone:
        number: int = gone.getsockname()[1]
        return number


def test_bytes_go_both_ways_and_the_end_of_one_side_is_passed_on(relays: LinuxRelays) -> None:
    said: list[bytes] = []

    def last_word(connection: socket.socket) -> None:
        said.append(all_of(connection))
        connection.sendall(b"heard you")  # after the client's end, which is no end of this side

    with tcp_server(last_word) as server, connect(relays.open("TCP", Circle(server))) as client:
        client.sendall(b"hello")
        client.shutdown(socket.SHUT_WR)
        assert all_of(client) == b"heard you"
    assert said == [b"hello"]


def test_more_than_any_buffer_holds_arrives_whole(relays: LinuxRelays) -> None:
    sent = bytes(range(256)) * (1 << 16)  # 16 MiB
    with tcp_server(echo) as server, connect(relays.open("TCP", Circle(server))) as client:

        def send() -> None:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)

        sending = threading.Thread(target=send)
        sending.start()
        assert all_of(client) == sent
        sending.join(DEADLINE)


def test_a_server_that_refuses_is_left_for_the_next(relays: LinuxRelays) -> None:
    with tcp_server(echo) as server:
        circle = Circle(closed_port(), server)
        with connect(relays.open("TCP", circle)) as client:
            client.sendall(b"?")
            assert client.recv(10) == b"?"
    assert [failed for _, failed in circle.asked] == [None, circle.servers[0]]
    assert {str(client) for client, _ in circle.asked} == {HERE}


@pytest.mark.parametrize("servers", [0, 1])
def test_without_a_server_that_answers_the_client_is_hung_up_on(
    relays: LinuxRelays, servers: int
) -> None:
    circle = Circle(*(closed_port() for _ in range(servers)))
    with connect(relays.open("TCP", circle)) as client:
        assert all_of(client) == b""


def test_a_reset_is_passed_on_as_a_reset(relays: LinuxRelays) -> None:
    def slam(connection: socket.socket) -> None:
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with tcp_server(slam) as server, connect(relays.open("TCP", Circle(server))) as client:
        client.sendall(b"?")
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_shut_port_takes_nobody_and_keeps_whom_it_has(relays: LinuxRelays) -> None:
    with tcp_server(echo) as server:
        port = relays.open("TCP", Circle(server))
        with connect(port) as client:
            client.sendall(b"a")
            assert client.recv(1) == b"a"
            relays.shut("TCP", port)
            eventually(lambda: refused(port))
            client.sendall(b"b")
            assert client.recv(1) == b"b"


def refused(port: int) -> bool:
    try:
        connect(port).close()
    except ConnectionRefusedError:
        return True
    return False


def test_closing_breaks_every_connection() -> None:
    relays = LinuxRelays()
    with tcp_server(echo) as server, connect(relays.open("TCP", Circle(server))) as client:
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        relays.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_udp_client_keeps_its_server_until_that_serves_no_more(relays: LinuxRelays) -> None:
    with udp_server(b"one") as one, udp_server(b"two") as two:
        circle = Circle(one)
        port = relays.open("UDP", circle)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(DEADLINE)
            client.connect((HERE, port))
            assert [ask(client), ask(client)] == [b"one?", b"one?"]
            assert len(circle.asked) == 1
            circle.servers = [(IPv4Address(HERE), two)]
            assert ask(client) == b"two?"


def ask(client: socket.socket) -> bytes:
    client.send(b"?")
    return client.recv(100)


def test_two_udp_clients_get_their_own_answers(relays: LinuxRelays) -> None:
    with udp_server(b"") as server:
        port = relays.open("UDP", Circle(server))
        clients = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        with clients[0] as first, clients[1] as second:
            for client, text in ((first, b"first"), (second, b"second")):
                client.settimeout(DEADLINE)
                client.connect((HERE, port))
                client.send(text)
            assert second.recv(100) == b"second"
            assert first.recv(100) == b"first"
