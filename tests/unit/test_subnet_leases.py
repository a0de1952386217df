"""Subnet leases: flannel's format, and who gets which subnet."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.clock import FakeClock
from labnet.errors import Conflict, Exhausted, ScenarioError, Unavailable
from labnet.store.memory import MemoryStore
from labnet.store.model import Page, Put
from labnet.subnet import config, file
from labnet.subnet import lease as leases
from labnet.subnet.config import NetConf
from labnet.subnet.file import SubnetEnv
from labnet.subnet.lease import Lease
from labnet.subnet.manager import TTL, Claim, Held, Manager
from labnet.subnet.watch import snapshots

CONF = '{"Network": "10.244.0.0/16", "SubnetLen": 24, "Backend": {"Type": "vxlan"}}'
NODE1 = Claim(IPv4Address("192.168.50.11"), "vxlan", 1, "02:00:00:00:00:01")
NODE2 = Claim(IPv4Address("192.168.50.12"), "vxlan", 1, "02:00:00:00:00:02")


def net(n: int) -> IPv4Network:
    return IPv4Network(f"10.244.{n}.0/24")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def manager(store: MemoryStore) -> Manager:
    made = Manager(store)
    made.publish(CONF)
    return made


def test_a_lease_is_stored_as_flannel_stores_it(manager: Manager, store: MemoryStore) -> None:
    manager.acquire(NODE1)

    (kv,) = store.range("/coreos.com/network/subnets/").items
    assert kv.key == "/coreos.com/network/subnets/10.244.1.0-24"
    assert kv.value == (
        b'{"PublicIP":"192.168.50.11","PublicIPv6":null,"BackendType":"vxlan",'
        b'"BackendData":{"VNI":1,"VtepMAC":"02:00:00:00:00:01"}}'
    )
    assert kv.lease


def test_host_gw_has_no_backend_data() -> None:
    value = leases.value(Lease(net(1), NODE1.public_ip, "host-gw"))

    assert json.loads(value) == {
        "PublicIP": "192.168.50.11",
        "PublicIPv6": None,
        "BackendType": "host-gw",
    }


@given(
    st.integers(0, 255),
    st.integers(8, 30),
    st.ip_addresses(v=4),
    st.sampled_from(["vxlan", "host-gw"]),
)
def test_a_lease_survives_the_way_through_etcd(
    n: int, length: int, ip: IPv4Address, kind: str
) -> None:
    subnet = IPv4Network(f"10.244.{n}.0/{length}", strict=False)
    data = (1, "02:00:00:00:00:01") if kind == "vxlan" else (0, "")
    lease = Lease(subnet, ip, kind, *data)

    assert leases.parse(leases.key(subnet), leases.value(lease)) == lease


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("10.244.1.0-24", b"not json"),
        ("10.244.1.0-24", b"[]"),
        ("10.244.1.0-24", b"{}"),
        ("10.244.1.0-99", b'{"PublicIP":"192.168.50.11"}'),
        ("lock", b'{"PublicIP":"192.168.50.11"}'),
    ],
)
def test_what_is_no_lease_is_skipped(key: str, value: bytes) -> None:
    assert leases.parse(f"/coreos.com/network/subnets/{key}", value) is None


def test_two_nodes_get_different_subnets(manager: Manager) -> None:
    assert manager.acquire(NODE1).lease.subnet == net(1)
    assert manager.acquire(NODE2).lease.subnet == net(2)


def test_a_node_finds_its_subnet_again_by_its_address(manager: Manager) -> None:
    manager.acquire(NODE1)
    manager.acquire(NODE2)

    assert manager.acquire(NODE2).lease.subnet == net(2)
    assert len(manager.leases()[0]) == 2


def test_a_node_gets_the_subnet_it_remembers_if_it_is_free(manager: Manager) -> None:
    assert manager.acquire(replace(NODE1, previous=net(77))).lease.subnet == net(77)
    assert manager.acquire(replace(NODE2, previous=net(77))).lease.subnet == net(1)


def test_a_subnet_reserved_for_another_node_is_never_taken(manager: Manager) -> None:
    reserving = replace(NODE1, reserved=(net(1), net(2)), previous=net(2))

    assert manager.acquire(reserving).lease.subnet == net(3)


def test_a_pinned_subnet_is_taken_and_an_older_lease_given_up(manager: Manager) -> None:
    manager.acquire(NODE1)

    manager.acquire(replace(NODE1, pinned=net(9)))

    assert [lease.subnet for lease in manager.leases()[0]] == [net(9)]


def test_a_pinned_subnet_of_somebody_else_is_refused(manager: Manager) -> None:
    manager.acquire(NODE1)

    with pytest.raises(Conflict, match=r"10\.244\.1\.0/24 is leased to 192\.168\.50\.11"):
        manager.acquire(replace(NODE2, pinned=net(1)))


def test_a_pinned_subnet_outside_the_network_is_refused(manager: Manager) -> None:
    with pytest.raises(ScenarioError, match="is not one of"):
        manager.acquire(replace(NODE1, pinned=IPv4Network("10.9.0.0/24")))


def test_a_lease_that_no_longer_fits_the_network_is_given_up(
    manager: Manager, store: MemoryStore
) -> None:
    manager.acquire(NODE1)
    store.txn([], [Put(config.CONFIG_KEY, CONF.replace("10.244", "10.99").encode())])

    manager.acquire(NODE1)

    assert [str(x.subnet) for x in manager.leases()[0]] == ["10.99.1.0/24"]


def test_a_lost_race_is_run_again(manager: Manager, store: MemoryStore) -> None:
    calls: list[int] = []

    class Racing(Manager):
        """Lets another node take the subnet between looking and taking, once."""

        def _attempt(self, conf: NetConf, claim: Claim, page: Page) -> Held | None:
            if not calls:
                calls.append(1)
                Manager(store).acquire(NODE2)
            return super()._attempt(conf, claim, page)

    assert Racing(store).acquire(NODE1).lease.subnet == net(2)


def test_a_full_network_says_so(store: MemoryStore) -> None:
    manager = Manager(store)
    manager.publish('{"Network": "10.244.0.0/26", "SubnetLen": 28}')
    for host in (1, 2, 3):
        manager.acquire(Claim(IPv4Address(host), "host-gw"))

    with pytest.raises(Exhausted, match="no free /28"):
        manager.acquire(NODE1)


def test_a_lease_ends_after_a_day_unless_renewed(manager: Manager, clock: FakeClock) -> None:
    held, other = manager.acquire(NODE1), manager.acquire(NODE2)
    clock.advance(TTL - 60)
    assert manager.renew(held)

    clock.advance(120)

    assert [lease.subnet for lease in manager.leases()[0]] == [held.lease.subnet]
    assert not manager.renew(other)


def test_the_configuration_is_published_once(manager: Manager) -> None:
    manager.publish('{"Network": "10.1.0.0/16"}')

    assert manager.network_config().network == IPv4Network("10.244.0.0/16")


def test_without_a_configuration_one_waits(store: MemoryStore) -> None:
    with pytest.raises(Unavailable, match=config.CONFIG_KEY):
        Manager(store).acquire(NODE1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"Network":"10.244.0.0/16"}', (24, "10.244.1.0", "10.244.255.0", "udp")),
        ('{"Network":"10.0.0.0/24"}', (26, "10.0.0.64", "10.0.0.192", "udp")),
        (
            '{"Network":"10.0.0.0/8","SubnetLen":20,"SubnetMin":"10.10.0.0",'
            '"SubnetMax":"10.99.0.0","Backend":{"Type":"host-gw"}}',
            (20, "10.10.0.0", "10.99.0.0", "host-gw"),
        ),
    ],
)
def test_the_network_is_cut_as_flannel_cuts_it(text: str, expected: tuple[object, ...]) -> None:
    c = config.parse(text)

    assert (c.subnet_len, str(c.subnet_min), str(c.subnet_max), c.backend_type) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "Network is missing"),
        ("[]", "config"),
        ("no", "config"),
        ('{"Network":"10.244.0.0/16","SubnetLen":31}', "SubnetLen 31"),
        ('{"Network":"10.244.0.0/24","SubnetLen":25}', "at least four"),
        ('{"Network":"10.244.0.0/30"}', "too small"),
        ('{"Network":"10.244.0.0/16","SubnetMin":"10.1.0.0"}', "SubnetMin 10.1.0.0 is not in"),
        ('{"Network":"10.244.0.0/16","SubnetMax":"10.244.9.7"}', "is not where a /24 begins"),
    ],
)
def test_a_wrong_configuration_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        config.parse(text)


ENV = SubnetEnv(IPv4Network("10.244.0.0/16"), net(2), 1450)


def test_subnet_env_is_flannels_file(tmp_path: Path) -> None:
    path = tmp_path / "run" / "subnet.env"

    assert file.write(path, ENV)

    assert path.read_text() == (
        "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.2.1/24\n"
        "FLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"
    )
    assert file.read(path) == ENV
    assert not file.write(path, ENV), "the same again changes nothing"
    assert [p.name for p in path.parent.iterdir()] == ["subnet.env"]


def test_a_broken_subnet_env_counts_as_missing(tmp_path: Path) -> None:
    (tmp_path / "subnet.env").write_text("FLANNEL_NETWORK=10.244.0.0/16\n")

    assert file.read(tmp_path / "subnet.env") is None
    assert file.read(tmp_path / "none") is None


def test_leases_are_followed_through_changes_and_compaction(
    manager: Manager, store: MemoryStore
) -> None:
    held = manager.acquire(NODE1)
    watches: list[object] = []
    pictures = snapshots(store, watches.append)
    assert [x.subnet for x in next(pictures)] == [net(1)]

    manager.acquire(NODE2)
    assert {x.subnet for x in next(pictures)} == {net(1), net(2)}
    store.revoke(held.id)
    assert [x.subnet for x in next(pictures)] == [net(2)]
    pictures.close()


def test_after_a_compaction_the_leases_are_listed_again(
    manager: Manager, store: MemoryStore
) -> None:
    pictures = snapshots(store, lambda _: None)
    assert next(pictures) == ()
    manager.acquire(NODE1)
    manager.acquire(NODE2)
    store.compact(store.range("/").revision)

    assert {x.subnet for x in next(pictures)} == {net(1), net(2)}
    pictures.close()
