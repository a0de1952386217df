"""The userspace mode without sockets: whose turn it is, which ports are open, which rules."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from labnet.clock import SystemClock
from labnet.kernel.relay_fake import FakeRelays
from labnet.node.kube_proxy.mode import Settings
from labnet.node.kube_proxy.userspace import UserspaceMode
from labnet.plan.conntrack import UDP, Connection
from labnet.proxy.model import Endpoint, ServicePort
from labnet.proxy.services import service_portals
from labnet.proxy.userspace.balancer import Balancer
from labnet.proxy.userspace.flows import Entrances, entrances, stale, with_removed
from tests.flow.cluster import A, B, R, endpoints, node_port, service
from tests.unit.test_proxy_kube_proxy import FakeNode

IP = IPv4Address
NODE = IP("192.168.50.11")
SETTINGS = Settings("node1", NODE, IPv4Network("10.244.0.0/16"))
CLIENT, OTHER = IP("10.244.2.99"), IP("10.244.2.98")
ONE, TWO, THREE = (Endpoint(IP(f"10.244.1.{n}"), 80) for n in (1, 2, 3))


# -- whose turn it is -------------------------------------------------------------------


def test_endpoints_take_turns_in_the_order_of_their_addresses() -> None:
    balancer = Balancer((THREE, ONE, TWO))
    assert [balancer.choose(CLIENT, 0) for _ in range(4)] == [ONE, TWO, THREE, ONE]


def test_one_that_comes_or_goes_does_not_disturb_the_turn_of_the_others() -> None:
    balancer = Balancer((ONE, THREE))
    assert balancer.choose(CLIENT, 0) == ONE
    balancer.update((ONE, TWO, THREE), 0)
    assert balancer.choose(CLIENT, 0) == TWO
    balancer.update((ONE, THREE), 0)
    assert balancer.choose(CLIENT, 0) == THREE


def test_a_connection_whose_endpoint_failed_is_offered_the_next() -> None:
    balancer = Balancer((ONE, TWO))
    assert balancer.choose(CLIENT, 0) == ONE
    assert balancer.choose(CLIENT, 0, failed=ONE) == TWO


def test_without_endpoints_there_is_no_choice() -> None:
    assert Balancer().choose(CLIENT, 0) is None


def test_a_remembered_client_keeps_its_endpoint_until_the_timeout_after_its_last_visit() -> None:
    balancer = Balancer((ONE, TWO), affinity_seconds=10)
    assert [balancer.choose(CLIENT, now) for now in (0, 9, 18)] == [ONE, ONE, ONE]
    assert balancer.choose(OTHER, 18) == TWO
    assert balancer.choose(CLIENT, 28) == ONE  # forgotten; it is simply ONE's turn again
    assert balancer.choose(CLIENT, 38) == TWO


def test_an_endpoint_that_failed_or_left_is_forgotten_at_once() -> None:
    balancer = Balancer((ONE, TWO), affinity_seconds=10)
    assert balancer.choose(CLIENT, 0) == ONE
    assert balancer.choose(CLIENT, 0, failed=ONE) == TWO
    assert balancer.choose(CLIENT, 1) == TWO
    balancer.update((ONE,), 10)
    assert balancer.choose(CLIENT, 2) == ONE


def test_expired_clients_do_not_pile_up() -> None:
    balancer = Balancer((ONE,), affinity_seconds=1)
    for n in range(5000):
        balancer.choose(IP(n), now=n)
    assert len(balancer._sessions) <= 1025


# -- ports and rules --------------------------------------------------------------------


class World:
    """A userspace mode and what it touches."""

    def __init__(self) -> None:
        self.node = FakeNode()
        self.restart()

    def restart(self) -> None:
        """Begin anew, as after a kill: the ports are gone and the rules are not."""
        self.relays = FakeRelays()
        self.mode = UserspaceMode(SETTINGS, self.node, self.node, self.relays, SystemClock())

    def sync(self, *pairs: tuple[dict[str, Any], dict[str, Any]]) -> Any:
        return self.mode.sync(
            {
                f"flow/{s['metadata']['name']}": service_portals(s, [slice_], "node1")
                for s, slice_ in pairs
            }
        )

    def chain(self, name: str, table: str = "nat") -> tuple[str, ...]:
        return self.node.state.chains(table)[name]


WEB = service("web", "10.96.0.10", ports=node_port(30080))
DNS = service("dns", "10.96.0.53", ports=[{"port": 53, "protocol": "UDP"}])
UDP_PORTS = [{"port": 8080, "protocol": "UDP"}]


@pytest.fixture
def world() -> World:
    return World()


def test_every_way_in_leads_to_the_one_port_of_the_service(world: World) -> None:
    world.sync((WEB, endpoints("web", A)))

    ((_, port),) = world.relays.ports
    arriving, leaving = f"-j REDIRECT --to-ports {port}", f"-j DNAT --to-destination {NODE}:{port}"
    for chain, end in (
        ("KUBE-PORTALS-CONTAINER", arriving),
        ("KUBE-NODEPORT-CONTAINER", arriving),
        ("KUBE-PORTALS-HOST", leaving),
        ("KUBE-NODEPORT-HOST", leaving),
    ):
        (rule,) = world.chain(chain)
        assert rule.endswith(end)
    assert f"--dport {port}" in world.chain("KUBE-NODEPORT-NON-LOCAL", "filter")[0]


def test_an_external_address_is_taken_from_outside_and_where_the_node_has_it(world: World) -> None:
    ext = service("ext", "10.96.0.90", externalIPs=["203.0.113.90"])
    world.sync((ext, endpoints("ext", A)))

    outside, own = (r for r in world.chain("KUBE-PORTALS-CONTAINER") if "203.0.113.90" in r)
    assert "-m physdev ! --physdev-is-in -j REDIRECT" in outside
    assert "-m addrtype --dst-type LOCAL -j REDIRECT" in own
    (leaving,) = (r for r in world.chain("KUBE-PORTALS-HOST") if "203.0.113.90" in r)
    assert "-m addrtype --dst-type LOCAL -j DNAT" in leaving


def test_new_endpoints_change_whom_a_client_gets_and_no_rule(world: World) -> None:
    world.sync((WEB, endpoints("web", A)))
    ((_, port),) = world.relays.ports
    assert world.relays.connect(port) == (IP(A), 8080)

    assert world.sync((WEB, endpoints("web", R))).written == ()
    assert world.relays.connect(port) == (IP(R), 8080)


def test_a_service_that_goes_takes_its_port_and_rules_along(world: World) -> None:
    world.sync((WEB, endpoints("web", A)), (DNS, endpoints("dns", A, ports=UDP_PORTS)))
    assert {transport for transport, _ in world.relays.ports} == {"TCP", "UDP"}

    world.sync((DNS, endpoints("dns", A, ports=UDP_PORTS)))
    assert {transport for transport, _ in world.relays.ports} == {"UDP"}
    assert "10.96.0.10" not in str(world.node.state)


def test_removing_the_mode_leaves_nothing_of_it(world: World) -> None:
    world.sync((WEB, endpoints("web", A)))
    world.mode.remove()
    assert "KUBE" not in str(world.node.state)


def test_after_a_restart_all_rules_lead_to_the_new_ports(world: World) -> None:
    world.sync((WEB, endpoints("web", A)))
    world.restart()
    world.sync((DNS, endpoints("dns", A, ports=UDP_PORTS)), (WEB, endpoints("web", A)))

    web = next(port for transport, port in world.relays.ports if transport == "TCP")
    rules = [rule for rule in world.chain("KUBE-PORTALS-CONTAINER") if "flow/web" in rule]
    assert len(rules) == 1
    assert rules[0].endswith(f"--to-ports {web}")
    assert web != 40000  # another one than before, else this test shows nothing


def test_what_cannot_be_relayed_is_reported_and_does_not_stop_the_others(world: World) -> None:
    sctp = service("sctp", "10.96.0.99", ports=[{"port": 9, "protocol": "SCTP"}])
    done = world.sync((sctp, endpoints("sctp", A)), (WEB, endpoints("web", B)))

    assert [str(refused) for refused in done.refused] == [
        "flow/sctp: SCTP is not relayed in userspace mode"
    ]
    assert "10.96.0.10" in str(world.node.state)


def test_no_free_port_is_reported_and_made_up_for_later(world: World) -> None:
    world.relays.exhausted = True
    assert len(world.sync((WEB, endpoints("web", A))).refused) == 1
    assert world.node.state.chains("nat").get("KUBE-PORTALS-CONTAINER", ()) == ()

    world.relays.exhausted = False
    assert world.sync((WEB, endpoints("web", A))).refused == ()
    assert world.chain("KUBE-PORTALS-CONTAINER")


def test_udp_flows_to_ports_of_before_are_forgotten_and_others_kept(world: World) -> None:
    pod = (CLIENT, 40000)
    old = Connection(UDP, pod, (IP("10.96.0.53"), 53), (NODE, 39999))
    foreign = Connection(UDP, pod, (IP("192.0.2.1"), 53), (IP("192.0.2.1"), 53))
    world.node.flows = {old, foreign}

    world.sync((DNS, endpoints("dns", A, ports=UDP_PORTS)))

    assert world.node.flows == {foreign}


def test_a_flow_to_the_right_port_is_not_stale_and_one_to_a_removed_service_is() -> None:
    port = ServicePort("flow", "dns", "", "UDP", IP("10.96.0.53"), 53, node_port=30053)
    now = entrances([(port, 40000)])
    pod = (CLIENT, 40000)
    good = Connection(UDP, pod, (IP("10.96.0.53"), 53), (NODE, 40000))

    assert stale([good], now, NODE) == ()
    assert stale([good], with_removed(Entrances(), now), NODE) == (good,)
