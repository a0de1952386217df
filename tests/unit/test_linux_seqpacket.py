"""Messages keep their boundaries, carry descriptors, and have no length anybody meets."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from labnet.errors import Unavailable
from labnet.linux import seqpacket


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with left, right:
        yield left, right


def test_two_messages_stay_two(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    seqpacket.send(left, b"one")
    seqpacket.send(left, b"two")
    assert [seqpacket.receive(right)[0], seqpacket.receive(right)[0]] == [b"one", b"two"]


@pytest.mark.parametrize("size", [seqpacket.INLINE_MAX, seqpacket.INLINE_MAX + 1, 3_000_000])
def test_a_long_message_arrives_whole(pair: tuple[socket.socket, socket.socket], size: int) -> None:
    left, right = pair
    payload = b"x" * size
    seqpacket.send(left, payload, [0])
    received, fds = seqpacket.receive(right)
    seqpacket.close_all(fds)
    assert received == payload
    assert len(fds) == 1


def test_descriptors_arrive_as_duplicates_in_order(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    left, right = pair
    reader, writer = os.pipe()
    seqpacket.send(left, b"pipe", [reader, writer])
    _, (reader_there, writer_there) = seqpacket.receive(right)
    os.write(writer_there, b"hello")
    assert os.read(reader, 5) == b"hello"
    assert not os.get_inheritable(writer_there)
    seqpacket.close_all((reader, writer, reader_there, writer_there))


def test_the_end_is_an_empty_message(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    left.close()
    assert seqpacket.receive(right) == (b"", ())


# -- the client -------------------------------------------------------------------------

Answer = Callable[[socket.socket, bytes], None]


@contextmanager
def server(path: Path, answer: Answer) -> Iterator[None]:
    """Serve every connection in a thread of its own until the block ends."""
    listener = seqpacket.listen(path)
    listener.setblocking(True)
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection:
            while (message := seqpacket.receive(connection)[0]) != b"":
                answer(connection, message)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(connection,)))
                threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        acceptor.join()
        listener.close()
        for thread in threads:
            thread.join()


def echo(connection: socket.socket, message: bytes) -> None:
    seqpacket.send(connection, message.upper())


def test_a_call_gets_its_reply_even_where_the_path_is_too_long_for_a_socket(
    tmp_path: Path,
) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    (short := tmp_path / "s").symlink_to(deep)
    with server(short / "sock", echo):
        client = seqpacket.Client(deep / "sock")
        assert client.call(b"hello") == (b"HELLO", ())
        assert client.call(b"again") == (b"AGAIN", ())
        client.close()


def test_threads_do_not_wait_for_one_another(tmp_path: Path) -> None:
    both_there = threading.Barrier(2, timeout=10)

    def together(connection: socket.socket, message: bytes) -> None:
        both_there.wait()
        seqpacket.send(connection, message)

    replies: list[bytes] = []
    with server(tmp_path / "sock", together):
        client = seqpacket.Client(tmp_path / "sock")
        threads = [
            threading.Thread(target=lambda text=text: replies.append(client.call(text)[0]))
            for text in (b"a", b"b")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()
    assert sorted(replies) == [b"a", b"b"]


def test_nobody_listening_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="nobody answers"):
        seqpacket.Client(tmp_path / "sock").call(b"hello")


def test_a_late_reply_is_unavailable_and_not_taken_for_the_next_one(tmp_path: Path) -> None:
    asked = threading.Event()

    def first_is_silent(connection: socket.socket, message: bytes) -> None:
        if asked.is_set():
            echo(connection, message)
        asked.set()

    with server(tmp_path / "sock", first_is_silent):
        client = seqpacket.Client(tmp_path / "sock")
        with pytest.raises(Unavailable, match="no answer in time"):
            client.call(b"first", timeout=0.05)
        assert client.call(b"second")[0] == b"SECOND"
        client.close()


def test_closing_the_client_ends_a_stream_that_waits(tmp_path: Path) -> None:
    with server(tmp_path / "sock", echo):
        client = seqpacket.Client(tmp_path / "sock")
        reply, following = client.stream(b"watch")
        assert reply == b"WATCH"
        client.close()
        with pytest.raises(Unavailable):
            next(following)
