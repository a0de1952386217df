"""Which addresses and ports a Service takes: drawn once, and never somebody else's."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.api.status import ApiError
from labnet.apiserver.reservations import IP_PREFIX, PORT_PREFIX, Ranges, claim, held

_PIN = IPv4Address("10.96.0.9")
_RANGES = Ranges(IPv4Network("10.96.0.0/28"), (30000, 30003), {"default/pinned": _PIN})


def _service(name: str = "web", kind: str = "ClusterIP", ports: int = 1, **spec: Any) -> Any:
    listed = [{"port": n + 1, "protocol": "TCP"} for n in range(ports)]
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": kind, "ports": listed, **spec},
    }


@given(st.integers())
def test_every_address_is_given_once_until_the_range_is_full(seed: int) -> None:
    used: set[str] = set()
    for _ in range(13):  # 16 addresses without network, broadcast and the pinned one
        taken = claim(_RANGES, _service(), None, used, Random(seed)).take
        assert len(taken) == 1
        assert not used & set(taken)
        assert taken[0] != f"{IP_PREFIX}{_PIN}"
        used |= set(taken)
    with pytest.raises(ApiError, match="range is full"):
        claim(_RANGES, _service(), None, used, Random(seed))


@given(st.integers(), st.integers(1, 4))
def test_node_ports_of_one_service_differ(seed: int, ports: int) -> None:
    service = _service(kind="NodePort", ports=ports)
    taken = claim(_RANGES, service, None, (), Random(seed)).take
    given_ports = [port["nodePort"] for port in service["spec"]["ports"]]
    assert len(set(given_ports)) == ports
    assert {f"{PORT_PREFIX}{p}" for p in given_ports} < set(taken)


def test_node_ports_can_run_out() -> None:
    with pytest.raises(ApiError, match="failed to allocate a nodePort: range is full"):
        claim(_RANGES, _service(kind="NodePort", ports=5), None, (), Random(1))


def test_a_pinned_service_gets_its_address_and_says_when_it_is_gone() -> None:
    service = _service("pinned")
    claim(_RANGES, service, None, (), Random(1))
    assert service["spec"]["clusterIP"] == str(_PIN)
    with pytest.raises(ApiError, match="provided IP is already allocated"):
        claim(_RANGES, _service("pinned"), None, (f"{IP_PREFIX}{_PIN}",), Random(1))


def test_an_update_takes_what_is_new_and_releases_what_is_not_needed() -> None:
    old = _service(kind="NodePort", clusterIP="10.96.0.2", clusterIPs=["10.96.0.2"])
    old["spec"]["ports"][0]["nodePort"] = 30001
    new = _service(kind="ExternalName", ports=0, externalName="example.org")
    used = set(held(old))
    found = claim(_RANGES, new, old, used, Random(1))
    assert (found.take, set(found.release)) == ((), used)


def test_the_same_port_number_may_serve_two_protocols() -> None:
    service = _service(kind="NodePort", ports=2)
    for port, protocol in zip(service["spec"]["ports"], ("TCP", "UDP"), strict=True):
        port |= {"nodePort": 30002, "protocol": protocol}
    taken = claim(_RANGES, service, None, (), Random(1)).take
    assert f"{PORT_PREFIX}30002" in taken


def test_the_network_and_broadcast_addresses_are_no_ones() -> None:
    for address in ("10.96.0.0", "10.96.0.15", "10.97.0.1", "nonsense"):
        service = _service(clusterIP=address, clusterIPs=[address])
        with pytest.raises(ApiError) as error:
            claim(_RANGES, service, None, (), Random(1))
        assert error.value.code == 422
