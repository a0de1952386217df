"""A real etcd on 127.0.0.1 for tests: client certificates, and it can be killed and restarted.

Ports are found free, data lies in the directory the test gives, and leaving the context
kills the process. ``tests/conftest.py`` skips tests marked ``etcd`` where there is none.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import time
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from labnet.store.tls import Tls


def free_ports(count: int) -> list[int]:
    """Return TCP ports of 127.0.0.1 that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def write_certificates(folder: Path) -> Tls:
    """Write ca.crt and localhost.crt/.key, good for both sides, and return their paths."""
    now = datetime.now(UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def builder(subject: str) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(_name("test-ca"))
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + timedelta(days=1))
        )

    ca = builder("test-ca").public_key(ca_key.public_key())
    ca_cert = ca.add_extension(x509.BasicConstraints(True, None), True).sign(
        ca_key, hashes.SHA256()
    )
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
    )
    leaf = builder("localhost").public_key(key.public_key()).add_extension(names, False)
    cert = leaf.sign(ca_key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    (folder / "ca.crt").write_bytes(ca_cert.public_bytes(pem))
    (folder / "localhost.crt").write_bytes(cert.public_bytes(pem))
    (folder / "localhost.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Tls(*(str(folder / n) for n in ("ca.crt", "localhost.crt", "localhost.key")))


class EtcdServer:
    """One etcd; ``endpoint`` and ``tls`` are what ``EtcdStore`` takes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.tls = write_certificates(folder)
        self._client, self._peer = free_ports(2)
        self.endpoint = f"127.0.0.1:{self._client}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, *, wait: bool = True) -> None:
        """Start etcd on the data directory, and wait until it takes connections."""
        client, peer = f"https://{self.endpoint}", f"http://127.0.0.1:{self._peer}"
        tls = self.tls
        with (self._folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("etcd", "--name", "test", "--data-dir", str(self._folder / "data")),
                    *("--unsafe-no-fsync", "--heartbeat-interval", "10"),
                    *("--election-timeout", "50"),
                    *("--listen-client-urls", client, "--advertise-client-urls", client),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--initial-cluster", f"test={peer}"),
                    *("--cert-file", tls.cert, "--key-file", tls.key),
                    *("--client-cert-auth", "--trusted-ca-file", tls.ca),
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, "ETCD_UNSUPPORTED_ARCH": ""},
            )
        if wait:
            self._await_answer()

    def _await_answer(self) -> None:
        context = ssl.create_default_context(cafile=self.tls.ca)
        context.load_cert_chain(self.tls.cert, self.tls.key)
        deadline = time.monotonic() + 20
        while True:
            try:
                with (
                    socket.create_connection(("127.0.0.1", self._client), 1) as raw,
                    context.wrap_socket(raw, server_hostname="localhost"),
                ):
                    return
            except OSError:
                if time.monotonic() > deadline or not self._process or self._process.poll():
                    raise

    def kill(self) -> None:
        """kill -9."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
