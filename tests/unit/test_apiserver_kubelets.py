"""How the API server asks a kubelet, and how the component reads its configuration."""

from __future__ import annotations

from typing import Any

import pytest

from labnet.api.status import ApiError
from labnet.apiserver.kubelets import log_path, node_address, session_path
from labnet.lab.components.kube_apiserver import parse


def _pod(*containers: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "containers": [{"name": name} for name in containers],
            "initContainers": [{"name": "first"}],
        },
    }


def test_a_log_path_carries_the_options_a_kubelet_knows() -> None:
    args = {"container": "c", "follow": "true", "tailLines": "5", "pretty": "1"}
    expected = "/containerLogs/shop/web/c?follow=true&tailLines=5"
    assert log_path(_pod("c", "d"), args) == expected
    assert log_path(_pod("c"), {}) == "/containerLogs/shop/web/c"
    assert log_path(_pod("c"), {"container": "first"}) == "/containerLogs/shop/web/first"


def test_a_session_path_repeats_the_command_and_names_the_streams() -> None:
    args = {"stdin": "true", "stdout": "1", "stderr": "false", "tty": "true"}
    assert session_path("exec", _pod("c"), args, ["sh", "-c", "a b"]) == (
        "/exec/shop/web/c?command=sh&command=-c&command=a+b&input=1&output=1&tty=1"
    )


def test_of_several_containers_one_must_be_named() -> None:
    with pytest.raises(ApiError) as error:
        log_path(_pod("a", "b"), {})
    assert error.value.message == (
        "a container name must be specified for pod web, choose one of: [a b]"
    )


def test_a_node_says_where_its_kubelet_listens() -> None:
    addresses = [
        {"type": "Hostname", "address": "node1"},
        {"type": "InternalIP", "address": "192.168.50.11"},
    ]
    node = {"status": {"addresses": addresses}}
    assert node_address(node, "node1") == ("192.168.50.11", 10250)
    node["status"] |= {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10251}}}  # type: ignore[dict-item]
    assert node_address(node, "node1") == ("192.168.50.11", 10251)
    with pytest.raises(ApiError, match="no preferred addresses found for node gone"):
        node_address(None, "gone")


def test_the_component_reads_its_configuration() -> None:
    names = (
        *("etcd", "etcd_ca", "etcd_cert", "etcd_key", "serving_cert", "serving_key"),
        *("client_ca", "tokens", "kubelet_cert", "kubelet_key"),
    )
    config: dict[str, Any] = {name: name for name in names}
    config |= {
        "listen": "192.168.50.10:6443",
        "sockets": {"api": 7},
        "service_cidr": "10.0.0.0/12",
        "node_port_range": [30000, 32767],
        "service_pins": {"default/my-nginx": "10.11.97.177"},
    }
    parsed = parse(config)
    assert parsed.listen == ("192.168.50.10", 6443)
    assert parsed.handed_over == (7,)
    assert str(parsed.ranges.first_address) == "10.0.0.1"
    assert str(parsed.ranges.pins["default/my-nginx"]) == "10.11.97.177"
    assert parsed.kubelet_tls.ca == "client_ca"
