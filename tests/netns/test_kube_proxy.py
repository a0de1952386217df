"""kube-proxy in a real node: API objects in, packets out."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from benchmarks.proxy_iptables import endpoint_slice as bulk_slice
from benchmarks.proxy_iptables import service as bulk_service
from labnet.client.fake import FakeApi
from labnet.client.kinds import ENDPOINT_SLICES, EVENTS, SERVICES
from labnet.clock import SystemClock
from labnet.kernel.netfilter import LinuxNetfilter
from labnet.node.kube_proxy.iptables import IptablesMode
from labnet.node.kube_proxy.mode import Settings
from labnet.node.kube_proxy.run import KubeProxy
from labnet.node.kube_proxy.syncer import Syncer
from labnet.plan.conntrack import UDP
from labnet.plan.netfilter import Transaction
from labnet.proxy.iptables.planner import Style
from tests.conditions import eventually
from tests.flow.cluster import CONFIG, A, B, endpoints, node_port, service
from tests.flow.wire import Wire, build, serve
from tests.own_netns import CLONE_NEWNET, CLONE_NEWUSER

pytestmark = [pytest.mark.netns, pytest.mark.iptables]

SETTINGS = Settings("node1", IPv4Address("192.168.50.11"), IPv4Network("10.244.0.0/16"))
DEADLINE = 10.0
WEB = service("web", "10.96.0.10", ports=node_port(30080))
DNS = service("dns", "10.96.0.53", ports=[{"port": 53, "protocol": "UDP"}])


class Cluster:
    """node1 with wires, an API server in memory, and a kube-proxy that can be restarted."""

    def __init__(self) -> None:
        self.wire: Wire = build()
        serve(self.wire)
        self.api = FakeApi()

    @contextmanager
    def proxy(self) -> Iterator[KubeProxy]:
        with LinuxNetfilter() as kernel:
            mode = IptablesMode(CONFIG, kernel)
            proxy = KubeProxy(SETTINGS, self.api, mode, kernel, SystemClock())
            thread = threading.Thread(target=proxy.run)
            thread.start()
            try:
                assert proxy.wait_synced(DEADLINE)
                yield proxy
            finally:
                proxy.stop()
                thread.join(DEADLINE)
                assert not thread.is_alive()

    def endpoints(self, name: str, *addresses: str, **options: Any) -> None:
        """Make ``addresses`` the endpoints of a service."""
        wanted = endpoints(name, *addresses, **options)
        found = {o["metadata"]["name"]: o for o in self.api.list(ENDPOINT_SLICES).items}
        if old := found.get(wanted["metadata"]["name"]):
            self.api.update(ENDPOINT_SLICES, {**old, "endpoints": wanted["endpoints"]})
        else:
            self.api.create(ENDPOINT_SLICES, wanted)

    def answers(self, source: str = "b", address: str = "10.96.0.10", port: int = 80) -> str:
        return self.wire.ask(source, address, port)[0]


@pytest.fixture
def cluster(own_netns: None) -> Cluster:
    made = Cluster()
    made.api.create(SERVICES, WEB)
    return made


def test_no_connection_is_lost_while_everything_around_it_changes(cluster: Cluster) -> None:
    answers: list[str] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            answers.append(cluster.answers())

    cluster.endpoints("web", A, B)
    asking = threading.Thread(target=ask)
    with cluster.proxy(), LinuxNetfilter() as kernel:
        asking.start()
        for n in range(12):
            name = f"other-{n}"
            cluster.api.create(SERVICES, service(name, f"10.96.1.{n}"))
            cluster.endpoints(name, A)
            cluster.endpoints("web", *((A,) if n % 2 else (A, B)))
            eventually(lambda name=name: f"flow/{name} cluster" in nat_of(kernel))  # type: ignore[misc]
            if n % 3 == 0:
                cluster.api.delete(SERVICES, name, "flow")
        done.set()
        asking.join(DEADLINE)

    assert len(answers) > 50
    assert set(answers) <= {"a", "b"}, [x for x in answers if x not in ("a", "b")]


def nat_of(kernel: LinuxNetfilter) -> str:
    return str(kernel.observe_netfilter().chains("nat"))


def generation() -> int | None:
    with LinuxNetfilter() as kernel:
        return kernel.generation()


def test_an_endpoint_comes_moves_and_goes(cluster: Cluster) -> None:
    with cluster.proxy():
        assert cluster.answers() == "REJECT"
        cluster.endpoints("web", A)
        eventually(lambda: cluster.answers() == "a")
        cluster.endpoints("web", B)
        eventually(lambda: cluster.answers("a") == "b")
        cluster.endpoints("web")
        eventually(lambda: cluster.answers() == "REJECT")


def test_a_change_is_in_the_kernel_at_once(cluster: Cluster) -> None:
    outside = ("client", "192.168.50.11", 30080)
    cluster.endpoints("web", A)
    with cluster.proxy():
        seconds = []
        for there, name in ((B, "b"), (A, "a")) * 2:
            cluster.endpoints("web", there)
            start = time.monotonic()
            eventually(lambda name=name: cluster.answers(*outside) == name)  # type: ignore[misc]
            seconds.append(time.monotonic() - start)
    assert min(seconds) < 0.5, seconds  # 0.05 on an idle machine


def test_rules_stay_when_it_ends_and_nothing_is_written_when_it_returns(
    cluster: Cluster,
) -> None:
    cluster.endpoints("web", A)
    with cluster.proxy():
        pass
    assert cluster.answers() == "a"
    before = generation()

    with cluster.proxy():
        assert generation() == before


def test_it_heals_a_flushed_table_and_a_half_written_chain(cluster: Cluster) -> None:
    cluster.endpoints("web", A, B)
    with cluster.proxy():
        pass
    with LinuxNetfilter() as kernel:
        whole = kernel.observe_netfilter()
        sep = next(c for c in whole.chains("nat") if c.startswith("KUBE-SEP-"))
        broken = (f":{sep} - [0:0]", "-D KUBE-SERVICES 1", "-A KUBE-NODEPORTS -j ACCEPT")
        kernel.apply_netfilter([Transaction("nat", broken, "sabotage")])
    subprocess.run(["iptables-nft", "-F"], check=True)

    with cluster.proxy(), LinuxNetfilter() as kernel:
        assert kernel.observe_netfilter() == whole


def test_foreign_rules_are_left_alone(cluster: Cluster) -> None:
    ours = "-s 203.0.113.1/32 -j RETURN"
    subprocess.run(["iptables-nft", "-t", "nat", "-N", "THEIRS"], check=True)
    for chain in ("THEIRS", "PREROUTING"):
        subprocess.run(["iptables-nft", "-t", "nat", "-A", chain, *ours.split()], check=True)
    cluster.endpoints("web", A)
    with cluster.proxy():
        cluster.api.delete(SERVICES, "web", "flow")
        with LinuxNetfilter() as kernel:
            eventually(lambda: "web" not in str(kernel.observe_netfilter()))
            nat = kernel.observe_netfilter().chains("nat")

    assert nat["THEIRS"] == (ours,)
    assert ours in nat["PREROUTING"]


@contextmanager
def fixed_client(cluster: Cluster) -> Iterator[Callable[[], str]]:
    """Give a function that asks the DNS service, always from the same port."""
    with cluster.wire.socket("b", socket.SOCK_DGRAM) as client:
        client.bind((B, 40000))
        client.connect(("10.96.0.53", 53))
        client.settimeout(0.2)

        def ask() -> str:
            try:
                client.send(b"?")
                return client.recv(100).decode().split()[0]
            except TimeoutError:
                return "DROP"
            except OSError:
                return "REJECT"

        yield ask


def test_a_udp_client_leaves_an_endpoint_that_went(cluster: Cluster) -> None:
    ports = [{"port": 8080, "protocol": "UDP"}]
    cluster.api.create(SERVICES, DNS)
    cluster.endpoints("dns", A, ports=ports)
    with cluster.proxy(), fixed_client(cluster) as ask:
        assert ask() == "a"
        cluster.endpoints("dns", "10.244.1.10", ports=ports)
        eventually(lambda: ask() == "r")


def test_a_udp_client_that_was_early_gets_its_first_endpoint(cluster: Cluster) -> None:
    ports = [{"port": 8080, "protocol": "UDP"}]
    cluster.api.create(SERVICES, DNS)
    # Without any NAT rule in it a namespace tracks no connections; flannel has one.
    masquerade = "-t nat -A POSTROUTING -s 10.244.0.0/16 -d 198.51.100.0/24 -j MASQUERADE"
    subprocess.run(["iptables-nft", *masquerade.split()], check=True)
    with fixed_client(cluster) as ask:
        assert ask() != "a"  # before there is a proxy: the flow is remembered untranslated
        with LinuxNetfilter() as kernel:
            assert any(c.destination[1] == 53 for c in kernel.connections(UDP))
        with cluster.proxy():
            cluster.endpoints("dns", A, ports=ports)
            eventually(lambda: ask() == "a")


def test_a_node_port_is_held_open_and_a_taken_one_reported(cluster: Cluster) -> None:
    taken = service("late", "10.96.0.77", ports=node_port(30099))
    with socket.create_server(("", 30099)) as theirs:
        cluster.api.create(SERVICES, taken)
        cluster.endpoints("late", A)
        with cluster.proxy():
            with pytest.raises(OSError, match="Address already in use"):
                socket.create_server(("", 30080)).close()
            eventually(lambda: bool(cluster.api.list(EVENTS).items))
            theirs.settimeout(DEADLINE)
            with cluster.wire.socket("client", socket.SOCK_STREAM) as client:
                client.connect(("192.168.50.11", 30099))  # the program keeps its traffic
                theirs.accept()[0].close()
    (event,) = cluster.api.list(EVENTS).items
    assert event["reason"] == "PortUnavailable"
    assert event["involvedObject"]["name"] == "late"


def health(cluster: Cluster, port: int) -> tuple[int, dict[str, Any]]:
    """Ask a health port from outside; return HTTP status and document, or 0."""
    with cluster.wire.socket("client", socket.SOCK_STREAM) as client:
        try:
            client.connect(("192.168.50.11", port))
            client.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            head, _, body = client.recv(4096).decode().partition("\r\n\r\n")
        except OSError:
            return 0, {}
    return int(head.split()[1]), json.loads(body)


def test_health_ports_follow_the_local_endpoints(cluster: Cluster) -> None:
    spec = {"ports": node_port(30060), "externalTrafficPolicy": "Local"}
    cluster.api.create(SERVICES, service("outer", "10.96.0.60", healthCheckNodePort=30100, **spec))
    with cluster.proxy():
        assert health(cluster, 10256)[0] == 200
        eventually(lambda: health(cluster, 30100)[0] == 503)
        cluster.endpoints("outer", A)
        eventually(lambda: health(cluster, 30100)[0] == 200)
        assert health(cluster, 30100)[1]["localEndpoints"] == 1

        # The last one is about to end: it still serves, but no balancer should start.
        cluster.endpoints("outer", A, ready=False, serving=True, terminating=True)
        eventually(lambda: health(cluster, 30100)[0] == 503)
        assert cluster.answers("client", "192.168.50.11", 30060) == "a"
        cluster.api.delete(SERVICES, "outer", "flow")
        eventually(lambda: health(cluster, 30100)[0] == 0)


@pytest.mark.userns
@pytest.mark.parametrize("style", ["v1.2", "current"])
def test_an_ordinary_user_gets_two_thousand_services(style: Style) -> None:
    """Transactions fit the socket of somebody who may not enlarge it."""

    def many() -> None:
        services = [bulk_service(n) for n in range(2000)]
        slices = [bulk_slice(n) for n in range(2000)]
        with LinuxNetfilter() as kernel:
            mode = IptablesMode(CONFIG, kernel, style)
            syncer = Syncer(SETTINGS, mode, kernel, lambda *report: pytest.fail(str(report)))
            assert syncer.sync(services, slices).refused == ()
            assert syncer.sync(services, slices).written == ()
        with LinuxNetfilter() as kernel:
            nat = kernel.observe_netfilter().chains("nat")
        assert len(nat["KUBE-SERVICES"]) == 2001
        assert sum(chain.startswith("KUBE-SEP-") for chain in nat) == 4000

    as_an_ordinary_user(many)


def as_an_ordinary_user(work: Callable[[], None]) -> None:
    """Run ``work`` in a child: another uid, its own user and network namespaces."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        failure = ""
        try:
            _become_nobody()
            work()
        except BaseException:  # noqa: BLE001 - the child must not run on as pytest
            failure = traceback.format_exc()
        os.write(writing, failure[-60000:].encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        failure = pipe.read()
    os.waitpid(child, 0)
    assert not failure, failure


def _become_nobody() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: /proc/self is ours again
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
