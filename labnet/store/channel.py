"""A gRPC channel to etcd: connecting, deadlines, and what its errors mean here.

grpcio does HTTP/2 and TLS; requests and answers pass through as bytes. The channel
reconnects by itself, with a back-off kept low (at most 0.2 s) because a lab's etcd is
one process on the same machine and is back soon. Calls *wait* for a connection until
their deadline, so whoever starts before etcd does needs no loop of its own.

Forking: grpcio is imported only when a channel is made, and its fork hooks are off. A
process may import it (``preload``) and fork; a channel that exists does not survive a
fork, so PID 1 of a lab never has one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labnet.errors import LabnetError, NotFound, Unavailable
from labnet.store.model import Compacted
from labnet.store.tls import Tls

OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # a whole range in one message
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 1000),  # how long one attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.keepalive_time_ms", 10_000),  # a cut link is noticed; etcd allows one per 5 s
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),  # two stores in one process fail apart
    ("grpc.enable_http_proxy", 0),
)


class CutOff(Unavailable):
    """The connection broke under a call; what was asked may have happened."""


Call = Callable[..., Any]


def preload() -> Any:
    """Import grpcio, without a channel or a thread; return the module."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # errors reach the caller anyway
    import grpc

    return grpc


class Channel:
    """The calls of etcd's services, as functions from bytes to bytes."""

    def __init__(self, endpoint: str, tls: Tls | None) -> None:
        grpc = preload()
        self._grpc = grpc
        self.closed = False
        self._endpoint = endpoint
        self._channel = (
            grpc.secure_channel(endpoint, _credentials(grpc, tls), options=OPTIONS)
            if tls
            else grpc.insecure_channel(endpoint, options=OPTIONS)
        )

    def unary(self, method: str) -> Call:
        """Return the call ``/etcdserverpb.<method>``."""
        call: Call = self._channel.unary_unary(f"/etcdserverpb.{method}")
        return call

    def stream(self, method: str) -> Call:
        """Return the two-way stream ``/etcdserverpb.<method>``."""
        call: Call = self._channel.stream_stream(f"/etcdserverpb.{method}")
        return call

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise what grpcio raises inside as an error of ours."""
        try:
            yield
        except self._grpc.RpcError as error:
            raise self.explained(error) from error
        except ValueError as error:
            if not self.closed:
                raise
            raise Unavailable(f"etcd at {self._endpoint}: this store is closed") from error

    def explained(self, error: Any) -> LabnetError:
        """Return the error of ours that a grpc.RpcError stands for."""
        codes = self._grpc.StatusCode
        code, details = error.code(), error.details() or ""
        text = f"etcd at {self._endpoint}: {details}"
        if code is codes.OUT_OF_RANGE and "compacted" in details:
            return Compacted(text, hint="list again and go on from there")
        if code is codes.NOT_FOUND:
            return NotFound(text)
        if code is codes.UNAVAILABLE:  # calls wait for a connection: this one had it
            return CutOff(text)
        away = (codes.DEADLINE_EXCEEDED, codes.CANCELLED, codes.UNKNOWN)
        if code in away:
            return Unavailable(text, hint="is etcd running? labnet logs etcd")
        return LabnetError(text)

    def close(self) -> None:
        """End every call and disconnect."""
        self.closed = True
        self._channel.close()


def _credentials(grpc: Any, tls: Tls) -> Any:
    ca, cert, key = (Path(path).read_bytes() for path in (tls.ca, tls.cert, tls.key))
    return grpc.ssl_channel_credentials(
        root_certificates=ca, private_key=key, certificate_chain=cert
    )
