"""What the scenario decides about hosts and components."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labnet.lab.compose import Composition, composition, net_conf
from labnet.sandbox.spec import ComponentSpec
from labnet.scenario import load

SCENARIO = Path(__file__).parents[2] / "scenarios" / "my-nginx.yaml"


def composed(*overrides: tuple[str, str]) -> Composition:
    return composition(load(SCENARIO, overrides), "/usr/bin/etcd")


def component(found: Composition, name: str) -> ComponentSpec:
    return next(one for one in found.components if one.name == name)


def test_etcd_starts_first_and_every_node_gets_its_three() -> None:
    names = [one.name for one in composed().components]

    assert names[:2] == ["etcd", "kube-apiserver"]
    for node in ("control-plane", "node1", "node2"):
        assert {f"{one}@{node}" for one in ("kubelet", "kube-proxy", "flanneld")} <= set(names)


def test_a_component_switched_off_is_left_out() -> None:
    found = composed(("spec.nodes.node1.components.kube-proxy", "off"))

    names = [one.name for one in found.components]
    assert "kube-proxy@node1" not in names
    assert "kube-proxy@node2" in names


def test_clients_run_nothing() -> None:
    assert [one.name for one in composed().components if one.host == "client"] == []


def test_every_host_knows_all_others_by_name() -> None:
    for host in composed().hosts:
        assert "192.168.50.100\tclient\n" in host.etc_hosts
        assert "127.0.0.1\tlocalhost\n" in host.etc_hosts


def test_configurations_are_plain_json() -> None:
    for one in composed().components:
        assert json.loads(json.dumps(one.config)) == one.config


def test_etcd_in_a_directory_that_hosts_do_not_see_is_kept_visible() -> None:
    hidden = composition(load(SCENARIO), "/tmp/bin/etcd")

    assert {host.name: host.keep for host in hidden.hosts if host.keep} == {
        "control-plane": ("/tmp/bin",)
    }
    assert not any(host.keep for host in composed().hosts)


def test_etcd_listens_on_its_host_and_that_hosts_loopback_alone() -> None:
    argv = composed().components[0].argv
    listens = [word for word in argv if word.startswith("--listen-")]

    assert listens == [
        "--listen-client-urls=https://192.168.50.10:2379,https://127.0.0.1:2379",
        "--listen-peer-urls=https://127.0.0.1:2380",
    ]
    assert "--client-cert-auth" in argv


def test_pinned_addresses_reach_those_who_keep_them() -> None:
    found = composed()

    assert component(found, "kube-apiserver").config["service_pins"] == {
        "default/my-nginx": "10.11.97.177",
        "sock-shop/front-end": "10.15.9.0",
    }
    assert component(found, "kube-scheduler").config["pinned_subnets"] == {
        "node1": "10.244.2.0/24",
        "node2": "10.244.1.0/24",
    }
    assert component(found, "kubelet@node1").config["reserved_addresses"] == [
        "10.244.1.10",
        "10.244.2.10",
        "10.244.2.5",
    ]
    assert component(found, "flanneld@node1").config["reserved_subnets"] == ["10.244.1.0/24"]


def test_the_proxy_modes_of_a_node_reach_its_proxy() -> None:
    found = composed(("spec.proxy.style", "current"))

    assert component(found, "kube-proxy@node1").config["style"] == "current"


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ("vxlan", {"Type": "vxlan", "VNI": 1, "Port": 8472}),
        ("host-gw", {"Type": "host-gw"}),
    ],
)
def test_flannels_configuration_has_what_its_backend_reads(
    backend: str, expected: dict[str, object]
) -> None:
    conf = net_conf(load(SCENARIO, [("spec.backend.type", backend)]))

    assert conf == {"Network": "10.244.0.0/16", "SubnetLen": 24, "Backend": expected}
