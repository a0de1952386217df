"""Forwarded connections: bytes both ways, half-closes, refusals."""

from __future__ import annotations

import socket
import threading

import pytest

from labnet.errors import LabnetError, Unavailable
from labnet.lab import relay


def test_bytes_go_both_ways_and_a_half_close_is_passed_on() -> None:
    person, here = socket.socketpair()
    there, server = socket.socketpair()
    with person, here, there, server:
        joined = threading.Thread(target=relay.join, args=(here, there), daemon=True)
        joined.start()

        person.sendall(b"question")
        person.shutdown(socket.SHUT_WR)
        heard = b"".join(iter(lambda: server.recv(100), b""))
        server.sendall(b"answer to " + heard)
        server.close()
        told = b"".join(iter(lambda: person.recv(100), b""))
        joined.join(timeout=10)

    assert told == b"answer to question"
    assert not joined.is_alive()


def test_a_connection_nobody_takes_inside_is_closed_and_complained_about() -> None:
    complaints: list[str] = []
    complained = threading.Event()

    def refuse() -> socket.socket:
        raise Unavailable("10.11.0.1:80: Connection refused")

    def complain(message: str) -> None:
        complaints.append(message)
        complained.set()

    listener = relay.listen(0)
    threading.Thread(target=relay.serve, args=(listener, refuse, complain), daemon=True).start()
    with socket.create_connection(listener.getsockname()) as person:
        person.settimeout(10)
        assert person.recv(1) == b""

    assert complained.wait(10)
    assert complaints == ["10.11.0.1:80: Connection refused"]


def test_a_port_that_is_taken_says_how_to_find_out_by_whom() -> None:
    with relay.listen(0) as listener:
        port = listener.getsockname()[1]

        with pytest.raises(LabnetError, match=f"{port} cannot be listened on") as taken:
            relay.listen(port)

    assert f"sport = :{port}" in taken.value.hint
