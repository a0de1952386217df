"""host-local and CNI's documents: files as the real plugin keeps them."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

import pytest

from labnet.cni import bridge
from labnet.cni import result as cni
from labnet.cni.host_local import AddressStore, allocate, release
from labnet.errors import AlreadyExists, Exhausted, LabnetError
from labnet.ipam.addresses import Range, pod_range

SUBNET = IPv4Network("10.244.1.0/24")
WITHIN = pod_range(SUBNET)


def ip(n: int) -> IPv4Address:
    return SUBNET.network_address + n


@pytest.fixture
def store(tmp_path: Path) -> AddressStore:
    return AddressStore(tmp_path / "networks" / "cbr0")


def take(
    store: AddressStore,
    who: str,
    requested: IPv4Address | None = None,
    reserved: tuple[IPv4Address, ...] = (),
    within: Range = WITHIN,
) -> IPv4Address:
    return allocate(store, within, who, "eth0", requested, reserved)


def test_the_first_pod_gets_the_address_after_the_bridge(store: AddressStore) -> None:
    assert [take(store, who) for who in "abc"] == [ip(2), ip(3), ip(4)]


def test_an_address_is_a_file_as_the_real_plugin_writes_it(store: AddressStore) -> None:
    take(store, "f00d-0")

    assert (store.directory / "10.244.1.2").read_bytes() == b"f00d-0\r\neth0"
    assert (store.directory / "last_reserved_ip.0").read_text() == "10.244.1.2"


def test_a_freed_address_is_given_again_only_after_a_round(store: AddressStore) -> None:
    take(store, "a")
    take(store, "b")
    assert release(store, "a") == (ip(2),)

    assert take(store, "c") == ip(4)
    assert release(store, "a") == (), "a second time is fine"


def test_a_container_keeps_what_it_has_across_a_restart(store: AddressStore) -> None:
    first = take(store, "a")

    assert take(AddressStore(store.directory), "a") == first


def test_a_reserved_address_goes_only_to_who_asks_for_it(store: AddressStore) -> None:
    reserved = (ip(2), ip(3), ip(10))

    assert take(store, "a", reserved=reserved) == ip(4)
    assert take(store, "b", requested=ip(10), reserved=reserved) == ip(10)
    assert take(store, "c", reserved=reserved) == ip(11)


def test_a_requested_address_may_be_below_the_range(store: AddressStore) -> None:
    within = pod_range(SUBNET, ip(100))

    assert take(store, "a", requested=ip(5), within=within) == ip(5)
    assert take(store, "b", within=within) == ip(100)


def test_a_held_address_is_refused_with_its_holder(store: AddressStore) -> None:
    take(store, "a", requested=ip(10))

    with pytest.raises(AlreadyExists, match=r"10\.244\.1\.10 is held by pod sandbox a"):
        take(store, "b", requested=ip(10))


@pytest.mark.parametrize("wrong", [ip(0), ip(1), ip(255), IPv4Address("10.244.2.7")])
def test_an_address_that_is_no_pods_is_refused(store: AddressStore, wrong: IPv4Address) -> None:
    with pytest.raises(LabnetError, match="is no pod address"):
        take(store, "a", requested=wrong)


def test_a_full_subnet_says_so_and_takes_a_pod_again_after_one_went(store: AddressStore) -> None:
    within = pod_range(IPv4Network("10.244.1.0/29"))
    for who in "abcde":
        take(store, who, within=within)

    with pytest.raises(Exhausted, match="5 taken"):
        take(store, "f", within=within)
    release(store, "c")
    assert take(store, "f", within=within) == ip(4)


def test_what_another_program_does_in_the_directory_is_seen(store: AddressStore) -> None:
    take(store, "a")
    (store.directory / "10.244.1.3").write_text("docker\r\neth0")
    (store.directory / "10.244.1.2").unlink()

    assert store.held() == {ip(3): "docker"}


ATTACHED = cni.Attachment(
    container="f00d-0",
    address=IPv4Interface("10.244.1.2/24"),
    gateway=ip(1),
    bridge="cni0",
    port="veth12345678",
    port_mac="0a:59:0a:f4:01:02",
    mac="0a:58:0a:f4:01:02",
)


def test_the_result_is_cnis(tmp_path: Path) -> None:
    assert cni.result(ATTACHED, "0a:58:0a:f4:01:01") == {
        "cniVersion": "1.0.0",
        "interfaces": [
            {"name": "cni0", "mac": "0a:58:0a:f4:01:01"},
            {"name": "veth12345678", "mac": "0a:59:0a:f4:01:02"},
            {"name": "eth0", "mac": "0a:58:0a:f4:01:02", "sandbox": "f00d-0"},
        ],
        "ips": [{"address": "10.244.1.2/24", "gateway": "10.244.1.1", "interface": 2}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.244.1.1"}],
        "dns": {},
    }


def test_a_cached_result_tells_a_restarted_kubelet_everything() -> None:
    text = cni.cached(ATTACHED, "0a:58:0a:f4:01:01", "f00d/0", {"K8S_POD_NAME": "web"})

    assert cni.parse_cached(text) == ("f00d/0", ATTACHED)
    assert ["K8S_POD_NAME", "web"] in json.loads(text)["cniArgs"]
    assert cni.cache_name(cni.container_id("f00d/0")) == "cbr0-f00d-0-eth0"


def test_the_configuration_list_names_the_plugins() -> None:
    (plugin,) = cni.conflist(1450, SUBNET)["plugins"]

    assert (plugin["type"], plugin["bridge"], plugin["hairpinMode"]) == ("bridge", "cni0", True)
    assert plugin["ipam"]["ranges"] == [[{"subnet": "10.244.1.0/24"}]]


def test_the_bridge_has_the_subnets_first_address() -> None:
    state = bridge.desired(SUBNET, 1450)

    (address,) = state.addresses
    (link,) = state.links
    assert str(address.interface) == "10.244.1.1/24"
    assert (link.name, link.kind, link.mtu, link.mac) == (
        "cni0",
        "bridge",
        1450,
        "0a:58:0a:f4:01:01",
    )


def test_a_pods_cable_is_a_hairpin_port_named_as_cni_names_it() -> None:
    cable = bridge.cable("f00d/0", ip(7), SUBNET, 1450)

    assert cable.port.startswith("veth")
    assert len(cable.port) == 12
    assert cable.hairpin
    assert (str(cable.address), str(cable.gateway)) == ("10.244.1.7/24", "10.244.1.1")
    assert cable.mac == "0a:58:0a:f4:01:07"
    assert bridge.cable("f00d/1", ip(7), SUBNET, 1450).port != cable.port
