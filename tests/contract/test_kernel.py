"""Every kernel, fake or real, keeps these promises.

Each test runs twice: against FakeKernel on any machine, and against Linux where
namespaces can be made. A fake that is kinder than Linux fails here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

import pytest

from labnet.errors import Exhausted, LabnetError, OpFailed
from labnet.kernel.fake import FakeKernel
from labnet.kernel.linux import LinuxKernel
from labnet.plan.diff import diff
from labnet.plan.kernel import Kernel
from labnet.plan.ops import (
    AddAddress,
    AddLink,
    AddRoute,
    Attach,
    DeleteAddress,
    DeleteForwarding,
    DeleteLink,
    DeleteNeighbour,
    DeleteRoute,
    Op,
    ReplaceRoute,
    SetForwarding,
    SetLink,
    SetNeighbour,
    SetSysctl,
)
from labnet.plan.state import (
    Address,
    Cable,
    Forwarding,
    Link,
    Neighbour,
    NodeState,
    Route,
    Scope,
    Sysctl,
    Vxlan,
)
from tests.own_netns import new_netns

ETH0 = Link("eth0", "bridge", mac="02:00:c0:a8:32:0b")
OUTSIDE = Address("eth0", IPv4Interface("192.168.50.11/24"))
BRIDGE = Link("cni0", "bridge", 1450, "0a:58:0a:f4:01:01")
GATEWAY = Address("cni0", IPv4Interface("10.244.1.1/24"))
TUNNEL = Link(
    "flannel.1",
    "vxlan",
    1450,
    "02:00:00:00:00:01",
    vxlan=Vxlan(1, 8472, IPv4Address("192.168.50.11"), "eth0"),
)
REMOTE = IPv4Network("10.244.2.0/24")
ROUTE = Route(REMOTE, IPv4Address("192.168.50.12"), "eth0")
TUNNELLED = Route(REMOTE, REMOTE.network_address, "flannel.1", onlink=True)
HOP = Neighbour("flannel.1", REMOTE.network_address, "02:00:00:00:00:02")
VTEP = Forwarding("flannel.1", "02:00:00:00:00:02", IPv4Address("192.168.50.12"))
CABLE = Cable(
    port="veth12345678",
    bridge="cni0",
    interface="eth0",
    address=IPv4Interface("10.244.1.2/24"),
    gateway=IPv4Address("10.244.1.1"),
    mac="0a:58:0a:f4:01:02",
    port_mac="0a:59:0a:f4:01:02",
    mtu=1450,
    hairpin=True,
)
DEVICES = frozenset({"eth0", "cni0", "flannel.1", CABLE.port})
EVERYTHING = Scope(DEVICES, DEVICES, frozenset({"net.ipv4.ip_forward"}))


@pytest.fixture
def fake() -> FakeKernel:
    return FakeKernel("node1", NodeState(frozenset({ETH0}), frozenset({OUTSIDE})))


@pytest.fixture
def linux(own_netns: None) -> Iterator[LinuxKernel]:
    with LinuxKernel("node1") as kernel:
        kernel.apply_all((AddLink(ETH0, "test"), AddAddress(OUTSIDE, "test")))
        yield kernel


class Promises:
    """The suite; the two classes below run it."""

    @pytest.fixture
    def kernel(self) -> Kernel:
        raise NotImplementedError

    @pytest.fixture
    def far_end(self) -> int:
        raise NotImplementedError

    @pytest.mark.parametrize(
        ("before", "op", "after"),
        [
            pytest.param((), AddLink(BRIDGE, ""), {"links": {ETH0, BRIDGE}}, id="bridge"),
            pytest.param((), AddLink(TUNNEL, ""), {"links": {ETH0, TUNNEL}}, id="vxlan"),
            pytest.param(
                (AddLink(BRIDGE, ""),),
                SetLink(BRIDGE, replace(BRIDGE, mtu=1400, mac="0a:58:0a:f4:01:02"), ""),
                {"links": {ETH0, replace(BRIDGE, mtu=1400, mac="0a:58:0a:f4:01:02")}},
                id="mtu and mac",
            ),
            pytest.param(
                (AddLink(BRIDGE, ""),),
                SetLink(BRIDGE, replace(BRIDGE, up=False), ""),
                {"links": {ETH0, replace(BRIDGE, up=False)}},
                id="down",
            ),
            pytest.param(
                (AddLink(BRIDGE, ""),), DeleteLink("cni0", ""), {"links": {ETH0}}, id="delete link"
            ),
            pytest.param(
                (AddLink(BRIDGE, ""),),
                AddAddress(GATEWAY, ""),
                {"addresses": {OUTSIDE, GATEWAY}},
                id="address",
            ),
            pytest.param((), DeleteAddress(OUTSIDE, ""), {"addresses": set()}, id="no address"),
            pytest.param((), AddRoute(ROUTE, ""), {"routes": {ROUTE}}, id="route"),
            pytest.param(
                (AddLink(TUNNEL, ""),),
                AddRoute(TUNNELLED, ""),
                {"routes": {TUNNELLED}},
                id="onlink route",
            ),
            pytest.param(
                (AddLink(TUNNEL, ""), AddRoute(ROUTE, "")),
                ReplaceRoute(ROUTE, TUNNELLED, ""),
                {"routes": {TUNNELLED}},
                id="replaced route",
            ),
            pytest.param(
                (AddRoute(ROUTE, ""),), DeleteRoute(ROUTE, ""), {"routes": set()}, id="no route"
            ),
            pytest.param(
                (AddLink(TUNNEL, ""),), SetNeighbour(HOP, ""), {"neighbours": {HOP}}, id="hop"
            ),
            pytest.param(
                (AddLink(TUNNEL, ""), SetNeighbour(HOP, "")),
                SetNeighbour(replace(HOP, mac="02:00:00:00:00:03"), ""),
                {"neighbours": {replace(HOP, mac="02:00:00:00:00:03")}},
                id="hop moved",
            ),
            pytest.param(
                (AddLink(TUNNEL, ""), SetNeighbour(HOP, "")),
                DeleteNeighbour(HOP, ""),
                {"neighbours": set()},
                id="no hop",
            ),
            pytest.param(
                (AddLink(TUNNEL, ""),),
                SetForwarding(VTEP, ""),
                {"forwardings": {VTEP}},
                id="forwarding",
            ),
            pytest.param(
                (AddLink(TUNNEL, ""), SetForwarding(VTEP, "")),
                SetForwarding(replace(VTEP, dst=IPv4Address("192.168.50.13")), ""),
                {"forwardings": {replace(VTEP, dst=IPv4Address("192.168.50.13"))}},
                id="forwarding moved",
            ),
            pytest.param(
                (AddLink(TUNNEL, ""), SetForwarding(VTEP, "")),
                DeleteForwarding(VTEP, ""),
                {"forwardings": set()},
                id="no forwarding",
            ),
            pytest.param(
                (),
                SetSysctl(Sysctl("net.ipv4.ip_forward", "1"), ""),
                {"sysctls": {Sysctl("net.ipv4.ip_forward", "1")}},
                id="sysctl",
            ),
        ],
    )
    def test_reports_back_what_was_done(
        self, kernel: Kernel, before: tuple[Op, ...], op: Op, after: dict[str, set[object]]
    ) -> None:
        kernel.apply_all(before)

        kernel.apply(op)

        observed = kernel.observe(EVERYTHING)
        assert {name: set(getattr(observed, name)) for name in after} == after

    @pytest.mark.parametrize(
        ("before", "op", "said"),
        [
            ((AddLink(BRIDGE, ""),), AddLink(BRIDGE, ""), r"ip link add cni0 .*: File exists"),
            ((), DeleteLink("cni0", ""), "node1: ip link del cni0: No such device"),
            ((), AddLink(replace(BRIDGE, name="b" * 16), ""), "ip link add b{16}"),
            ((), AddLink(replace(BRIDGE, master="none0"), ""), "No such device"),
            ((), AddAddress(OUTSIDE, ""), "ip addr add 192.168.50.11/24 brd + .*: File exists"),
            ((), AddAddress(GATEWAY, ""), "No such device"),
            ((), DeleteAddress(replace(OUTSIDE, interface=GATEWAY.interface), ""), "Cannot assign"),
            ((AddRoute(ROUTE, ""),), AddRoute(ROUTE, ""), r"ip route add 10.244.2.0/24 .*exists"),
            ((), DeleteRoute(ROUTE, ""), r"node1: ip route del 10.244.2.0/24 .*No such process"),
            ((), AddRoute(replace(ROUTE, via=IPv4Address("203.0.113.1")), ""), "unreachable"),
            (
                (SetLink(ETH0, replace(ETH0, up=False), ""),),
                AddRoute(ROUTE, ""),
                "Network is down|unreachable",
            ),
            ((AddLink(TUNNEL, ""),), DeleteNeighbour(HOP, ""), "No such file"),
            ((AddLink(TUNNEL, ""),), DeleteForwarding(VTEP, ""), "No such file"),
            ((AddLink(TUNNEL, ""),), AddLink(replace(TUNNEL, name="vx1"), ""), "File exists"),
            ((), SetSysctl(Sysctl("net.ipv4.no_such", "1"), ""), "sysctl -w .*No such file"),
        ],
    )
    def test_refuses_and_says_which_command_and_why(
        self, kernel: Kernel, before: tuple[Op, ...], op: Op, said: str
    ) -> None:
        kernel.apply_all(before)

        with pytest.raises(OpFailed, match=said.replace("+", r"\+")):
            kernel.apply(op)

    def test_goes_on_after_a_refusal_and_names_the_first(self, kernel: Kernel) -> None:
        with pytest.raises(OpFailed, match="ip link del nope0"):
            kernel.apply_all(
                (
                    DeleteLink("nope0", ""),
                    DeleteLink("nope1", ""),
                    AddLink(BRIDGE, ""),
                    AddAddress(GATEWAY, ""),
                )
            )

        assert GATEWAY in kernel.observe(EVERYTHING).addresses

    def test_a_deleted_device_takes_everything_on_it_along(self, kernel: Kernel) -> None:
        state = NodeState(
            frozenset({TUNNEL}),
            routes=frozenset({TUNNELLED}),
            neighbours=frozenset({HOP}),
            forwardings=frozenset({VTEP}),
        )
        scope = Scope(frozenset({"flannel.1"}), frozenset({"flannel.1"}))
        kernel.apply_all(diff(state, kernel.observe(scope)))
        assert kernel.observe(scope) == state

        kernel.apply(DeleteLink("flannel.1", ""))

        assert kernel.observe(scope) == NodeState()

    def test_a_device_that_goes_down_loses_its_routes(self, kernel: Kernel) -> None:
        kernel.apply(AddRoute(ROUTE, ""))

        kernel.apply(SetLink(ETH0, replace(ETH0, up=False), ""))

        assert not kernel.observe(EVERYTHING).routes

    def test_an_address_takes_the_routes_that_need_it_along(self, kernel: Kernel) -> None:
        kernel.apply(AddRoute(ROUTE, ""))

        kernel.apply(DeleteAddress(OUTSIDE, ""))

        assert not kernel.observe(EVERYTHING).routes

    def test_sees_only_what_the_scope_covers(self, kernel: Kernel) -> None:
        kernel.apply_all((AddLink(BRIDGE, ""), AddRoute(ROUTE, "")))

        seen = kernel.observe(Scope(links=frozenset({"cni0"})))

        assert seen == NodeState(links=frozenset({BRIDGE}))

    def test_a_cable_makes_a_hairpin_port_of_the_bridge(self, kernel: Kernel, far_end: int) -> None:
        kernel.apply_all((AddLink(BRIDGE, ""), AddAddress(GATEWAY, "")))

        kernel.attach(Attach(CABLE, "test"), far_end)

        port = kernel.observe(EVERYTHING).link(CABLE.port)
        assert port == Link(CABLE.port, "veth", 1450, CABLE.port_mac, master="cni0", hairpin=True)
        kernel.apply(SetLink(port, replace(port, up=False), "test"))
        assert kernel.observe(EVERYTHING).link(CABLE.port) == replace(port, up=False)

    def test_a_cable_to_a_missing_bridge_is_refused(self, kernel: Kernel, far_end: int) -> None:
        with pytest.raises(OpFailed, match=r"node1: ip link add veth12345678 .*No such device"):
            kernel.attach(Attach(CABLE, "test"), far_end)

        assert kernel.observe(EVERYTHING).link(CABLE.port) is None

    def test_a_namespace_takes_only_one_eth0(self, kernel: Kernel, far_end: int) -> None:
        kernel.apply(AddLink(BRIDGE, ""))
        kernel.attach(Attach(CABLE, "test"), far_end)

        with pytest.raises(OpFailed, match="File exists"):
            kernel.attach(Attach(replace(CABLE, port="veth2"), "test"), far_end)


class TestFakeKernel(Promises):
    @pytest.fixture
    def kernel(self, fake: FakeKernel) -> Kernel:
        return fake

    @pytest.fixture
    def far_end(self) -> int:
        return 99

    def test_a_bridge_has_1023_ports(self, fake: FakeKernel) -> None:
        fake.apply(AddLink(BRIDGE, ""))
        for number in range(1023):
            fake.attach(Attach(replace(CABLE, port=f"veth{number}"), ""), number)

        with pytest.raises(Exhausted, match="all 1023 ports"):
            fake.attach(Attach(CABLE, ""), 1023)


@pytest.mark.netns
class TestLinuxKernel(Promises):
    @pytest.fixture
    def kernel(self, linux: LinuxKernel) -> Kernel:
        return linux

    @pytest.fixture
    def far_end(self, linux: LinuxKernel) -> Iterator[int]:
        fd = new_netns()
        yield fd
        os.close(fd)

    def test_what_is_no_namespace_is_refused(self, linux: LinuxKernel) -> None:
        linux.apply(AddLink(BRIDGE, ""))
        with Path("/dev/null").open() as nothing, pytest.raises(OpFailed, match="ip -n POD"):
            linux.attach(Attach(CABLE, ""), nothing.fileno())

        assert linux.observe(EVERYTHING).link(CABLE.port) is None

    def test_a_cable_that_fails_half_way_is_taken_up_again(
        self, linux: LinuxKernel, far_end: int
    ) -> None:
        linux.apply(AddLink(BRIDGE, ""))
        unreachable = replace(CABLE, gateway=IPv4Address("203.0.113.1"))

        with pytest.raises(LabnetError, match=r"ip -n POD route add default .*[Nn]etwork|gateway"):
            linux.attach(Attach(unreachable, ""), far_end)

        assert linux.observe(EVERYTHING).link(CABLE.port) is None
