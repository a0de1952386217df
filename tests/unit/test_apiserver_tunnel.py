"""The tunnel: everything passes, in both directions, also when one end is slow."""

from __future__ import annotations

import socket
import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from labnet.apiserver.tunnel import BUFFER, Tunnel


def _pair() -> tuple[socket.socket, socket.socket]:
    left, right = socket.socketpair()
    left.settimeout(10)
    return left, right


def _read_all(sock: socket.socket) -> bytes:
    received = bytearray()
    while data := sock.recv(65536):
        received += data
    return bytes(received)


@settings(max_examples=20, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=200))
def test_bytes_arrive_unchanged(head: bytes, up: bytes, down: bytes) -> None:
    client, inner_client = _pair()
    kubelet, inner_kubelet = _pair()
    Tunnel(inner_client, inner_kubelet, head).start()
    with client, kubelet:
        client.sendall(up)
        kubelet.sendall(down)
        received = b""
        while len(received) < len(up):
            received += kubelet.recv(4096)
        kubelet.shutdown(socket.SHUT_WR)
        assert received == up
        assert _read_all(client) == head + down


def test_both_ends_may_send_more_than_fits_before_they_read() -> None:
    """An echo like ``exec -i cat``: one thread that waited for one end would hang."""
    client, inner_client = _pair()
    kubelet, inner_kubelet = _pair()
    Tunnel(inner_client, inner_kubelet).start()

    def echo() -> None:
        while data := kubelet.recv(65536):
            kubelet.sendall(data)

    data = bytes(range(256)) * (BUFFER // 64)
    threads = [
        threading.Thread(target=echo),
        threading.Thread(target=client.sendall, args=(data,)),
    ]
    for thread in threads:
        thread.start()
    received = bytearray()
    while len(received) < len(data):
        received += client.recv(65536)
    assert bytes(received) == data
    client.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    kubelet.close()
