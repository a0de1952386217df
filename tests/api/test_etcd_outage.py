"""The same server over a real etcd that is killed and comes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from labnet.store.etcd import EtcdStore
from labnet.store.tls import Tls
from tests.api.server import RunningServer, Watch, config_map, service
from tests.etcd_server import EtcdServer

pytestmark = pytest.mark.etcd

_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    """A running etcd."""
    with EtcdServer(tmp_path) as server:
        yield server


@pytest.fixture
def api(etcd: EtcdServer, tls: Tls, tmp_path: Path) -> Iterator[RunningServer]:
    """An API server on it."""
    with (
        EtcdStore(etcd.endpoint, etcd.tls, deadline=1.0) as store,
        RunningServer(store, tls, tmp_path) as server,
    ):
        yield server


def _collect(watch: Watch, into: list[str], until: str) -> threading.Thread:
    def read() -> None:
        for event in watch:
            into.append(event["object"]["metadata"]["name"])
            if into[-1] == until:
                return

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def test_a_watch_goes_through_an_outage_without_loss_or_doubles(
    etcd: EtcdServer, api: RunningServer
) -> None:
    seen: list[str] = []
    reader = _collect(api.watch(f"{_MAPS}?watch=1"), seen, "last")
    written = []
    for n in range(60):
        if n % 20 == 10:
            etcd.kill()
            etcd.start()
        answer = api.post(_MAPS, config_map(f"m{n}"))
        assert answer.status in (201, 409, 503)  # 409, 503: cut off, and may have been written
        written.append(f"m{n}")
    api.post(_MAPS, config_map("last"))
    reader.join(20)
    assert len(seen) == len(set(seen))
    stored = [item["metadata"]["name"] for item in api.get(_MAPS).json["items"]]
    assert sorted(seen) == sorted(stored)
    assert len(stored) >= 55


def test_writes_during_an_outage_are_refused_and_reads_go_on(
    etcd: EtcdServer, api: RunningServer
) -> None:
    api.post(_MAPS, config_map("a"))
    assert api.get(f"{_MAPS}/a").status == 200
    etcd.kill()
    refused = api.post(_MAPS, config_map("b"))
    assert (refused.status, refused.json["reason"]) == (503, "ServiceUnavailable")
    assert refused.headers["Retry-After"] == "1"
    assert api.get(f"{_MAPS}/a").status == 200
    assert api.request("GET", "/readyz", token=None).status == 500
    etcd.start()
    assert api.post(_MAPS, config_map("c")).status == 201
    assert api.request("GET", "/readyz", token=None).status == 200


def test_what_was_written_is_there_after_a_restart_of_the_api_server(
    etcd: EtcdServer, api: RunningServer, tls: Tls, tmp_path: Path
) -> None:
    path = "/api/v1/namespaces/default/services"
    address = api.post(path, service("web")).json["spec"]["clusterIP"]
    with (
        EtcdStore(etcd.endpoint, etcd.tls) as store,
        RunningServer(store, tls, tmp_path) as restarted,
    ):
        assert restarted.get(f"{path}/web").json["spec"]["clusterIP"] == address
        taken = restarted.post(path, service("other", clusterIP=address))
        assert taken.status == 422


def test_kubectl_works_on_it(api: RunningServer) -> None:
    api.kubectl("create", "deployment", "web", "--image=nginx")
    assert "0/1" in api.kubectl("get", "deploy", "web")
    api.kubectl("delete", "deploy", "web")
