"""Free subnets and free addresses: arithmetic that must hold for every input."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.errors import Exhausted, ScenarioError
from labnet.ipam.addresses import next_free, pod_range
from labnet.ipam.subnets import candidates, first_free

SUBNET = IPv4Network("10.244.1.0/28")
ADDRESSES = st.integers(0, 15).map(lambda n: SUBNET.network_address + n)
FIRST, LAST = IPv4Address("10.244.1.0"), IPv4Address("10.244.255.0")


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        pytest.param([], "10.244.1.0/24", id="empty pool"),
        pytest.param(["10.244.1.0/24"], "10.244.2.0/24", id="first taken"),
        pytest.param(["10.244.0.0/22"], "10.244.4.0/24", id="wider lease overlaps"),
        pytest.param(["10.244.1.128/25"], "10.244.2.0/24", id="narrower lease overlaps"),
    ],
)
def test_first_free_subnet(taken: list[str], expected: str) -> None:
    assert str(first_free(FIRST, LAST, 24, [IPv4Network(t) for t in taken])) == expected


def test_a_full_pool_says_what_to_do() -> None:
    with pytest.raises(Exhausted, match=r"no free /24 left between 10\.244\.1\.0") as caught:
        first_free(FIRST, LAST, 24, [IPv4Network("10.244.0.0/16")])

    assert "subnetLen" in caught.value.hint


@given(st.lists(st.integers(0, 255), max_size=40), st.integers(20, 28))
def test_a_free_subnet_overlaps_nothing_and_nothing_lower_is_free(
    numbers: list[int], length: int
) -> None:
    taken = [IPv4Network(f"10.244.{n}.0/24") for n in numbers]
    base = IPv4Address("10.244.0.0")

    found = first_free(base, IPv4Address("10.245.255.0"), length, taken)

    assert not any(found.overlaps(t) for t in taken)
    lower = [c for c in candidates(base, found.network_address, length) if c < found]
    assert all(any(c.overlaps(t) for t in taken) for c in lower)


@given(st.sets(ADDRESSES), st.none() | ADDRESSES)
def test_a_free_address_is_a_pods_and_nobody_has_it(
    taken: set[IPv4Address], after: IPv4Address | None
) -> None:
    within = pod_range(SUBNET)
    usable = {a for a in SUBNET.hosts() if a != within.gateway}
    if usable <= taken:
        with pytest.raises(Exhausted):
            next_free(within, taken, after=after)
        return

    found = next_free(within, taken, after=after)

    assert found in usable - taken


@given(st.sets(ADDRESSES, max_size=8))
def test_going_round_gives_every_address_once(taken: set[IPv4Address]) -> None:
    within = pod_range(SUBNET)
    held, last, given_out = set(taken), None, []
    for _ in range(len({a for a in SUBNET.hosts() if a != within.gateway} - taken)):
        last = next_free(within, held, after=last)
        held.add(last)
        given_out.append(last)

    assert len(set(given_out)) == len(given_out)
    with pytest.raises(Exhausted):
        next_free(within, held, after=last)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(None, "10.244.1.2", id="the bridge has the first"),
        pytest.param("10.244.1.7", "10.244.1.8", id="goes on after the last"),
        pytest.param("10.244.1.14", "10.244.1.2", id="round again, without broadcast"),
        pytest.param("10.9.9.9", "10.244.1.2", id="a last one of another subnet"),
    ],
)
def test_next_address(after: str | None, expected: str) -> None:
    last = IPv4Address(after) if after else None

    assert str(next_free(pod_range(SUBNET), set(), after=last)) == expected


def test_a_range_start_keeps_the_addresses_below_it_free() -> None:
    within = pod_range(SUBNET, IPv4Address("10.244.1.10"))

    assert str(next_free(within, set(), after=IPv4Address("10.244.1.14"))) == "10.244.1.10"


def test_a_range_start_of_another_subnet_is_refused() -> None:
    with pytest.raises(ScenarioError, match="is not in the node's subnet"):
        pod_range(SUBNET, IPv4Address("10.244.2.10"))


def test_a_subnet_without_room_for_pods_is_refused() -> None:
    with pytest.raises(Exhausted, match="no address for a pod"):
        pod_range(IPv4Network("10.244.1.0/31"))
