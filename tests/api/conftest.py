"""An API server over a store in memory, new for every test (some 40 ms)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from labnet.store.memory import MemoryStore
from labnet.store.tls import Tls
from tests.api.server import RunningServer
from tests.etcd_server import write_certificates


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """Certificates of one authority for everybody."""
    return write_certificates(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def api(tls: Tls, tmp_path: Path) -> Iterator[RunningServer]:
    """A running API server."""
    with RunningServer(MemoryStore(), tls, tmp_path) as server:
        yield server
