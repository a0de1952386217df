"""Scenario files: what a sound one becomes, and what is said about an unsound one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labnet.errors import ScenarioError
from labnet.scenario import load
from labnet.scenario.model import Lab

SHIPPED = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))
HEAD = "apiVersion: labnet.dev/v1\nkind: Lab\nmetadata: {name: t}\n"
Loader = Callable[..., Lab]


@pytest.fixture
def lab(tmp_path: Path) -> Loader:
    def written(text: str, *overrides: tuple[str, str]) -> Lab:
        file = tmp_path / "lab.yaml"
        file.write_text(text)
        return load(file, overrides)

    return written


def problems(lab: Loader, text: str, *overrides: tuple[str, str]) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        lab(text, *overrides)
    return caught.value.message.splitlines()


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_every_shipped_scenario_loads(file: Path) -> None:
    assert load(file).objects


def test_my_nginx_has_the_articles_addresses() -> None:
    lab = load(next(file for file in SHIPPED if file.stem == "my-nginx"))

    assert [node.name for node in lab.nodes] == ["control-plane", "node1", "node2"]
    assert lab.nodes[1].subnet == IPv4Network("10.244.2.0/24")
    assert lab.pins.services["default/my-nginx"] == IPv4Address("10.11.97.177")
    assert lab.proxy.style == "v1.2"


def test_a_bare_lab_gets_a_control_plane_and_two_workers(lab: Loader) -> None:
    built = lab(HEAD)

    assert [(n.name, str(n.address)) for n in built.nodes] == [
        ("control-plane", "192.168.50.10"),
        ("node1", "192.168.50.11"),
        ("node2", "192.168.50.12"),
    ]
    assert built.nodes[0].taints[0].effect == "NoSchedule"
    assert str(built.gateway) == "192.168.50.1"


def test_hosts_without_an_address_never_get_a_named_one(lab: Loader) -> None:
    built = lab(HEAD + "spec: {nodes: [{name: a}, {name: b, address: 192.168.50.11}]}")

    assert [str(node.address)[-2:] for node in built.nodes] == ["10", "12", "11"]


def test_a_small_underlay_uses_its_lowest_free_addresses(lab: Loader) -> None:
    built = lab(HEAD + "spec: {underlay: 10.9.0.0/29, nodes: 2, clients: [{name: c}]}")

    addresses = [node.address for node in built.nodes] + [c.address for c in built.clients]
    assert [str(address) for address in addresses] == [
        "10.9.0.2",
        "10.9.0.3",
        "10.9.0.4",
        "10.9.0.5",
    ]


def test_options_of_the_command_line_override_the_file(lab: Loader) -> None:
    text = HEAD + "spec: {nodes: [{name: a, subnet: 10.244.5.0/24}]}"

    built = lab(text, ("spec.proxy.style", "v1.2"), ("spec.nodes.a.subnet", "10.244.6.0/24"))

    assert built.nodes[1].subnet == IPv4Network("10.244.6.0/24")
    assert built.nodes[1].proxy.style == "v1.2"


def test_off_is_a_word_and_leaves_a_component_out(lab: Loader) -> None:
    built = lab(HEAD + "spec: {nodes: [{name: a, components: {kube-proxy: off}}]}")

    assert built.nodes[1].components == {"kubelet": True, "kube-proxy": False, "flanneld": True}


def test_objects_keep_their_order_and_lists_are_taken_apart(lab: Loader, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(_config_map("c"))
    item = "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}"
    items = f"---\napiVersion: v1\nkind: List\nitems: [{item}]\n"

    built = lab(HEAD + "spec: {include: [more.yaml]}\n" + _config_map("a") + items)

    assert [one["metadata"]["name"] for one in built.objects] == ["a", "b", "c"]


def _config_map(name: str) -> str:
    return f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            HEAD + "spec: {nodes: [{name: n1, adress: 1.2.3.4}]}",
            'lab.yaml:4:27: spec.nodes[0] has no field "adress"; did you mean "address"?',
            id="misspelt field",
        ),
        pytest.param(
            HEAD + "spec: {proxy: {mode: iptable}}",
            "lab.yaml:4:22: spec.proxy.mode must be one of iptables, userspace, "
            'not "iptable"; did you mean "iptables"?',
            id="misspelt mode",
        ),
        pytest.param(
            HEAD + "spec: {podCIDR: 10.244.1.0/16}",
            "has host bits set; did you mean 10.244.0.0/16?",
            id="host bits",
        ),
        pytest.param(
            HEAD + "spec: {nodes: 0}",
            "lab.yaml:4:15: spec.nodes must be between 1 and 100, not 0",
            id="no nodes",
        ),
        pytest.param(
            HEAD + "spec: {nodes: [{name: a}, {name: a}]}",
            'lab.yaml:4:34: two hosts are called "a"',
            id="two of a name",
        ),
        pytest.param(
            HEAD + "spec: {serviceCIDR: 10.244.0.0/20}",
            "serviceCIDR 10.244.0.0/20 overlaps podCIDR 10.244.0.0/16",
            id="overlapping networks",
        ),
        pytest.param(
            HEAD + "spec: {pins: {pods: {default/a: [10.244.1.5]}}}",
            "lab.yaml:4:34: 10.244.1.5 is in no node's subnet; give a node",
            id="pin without a subnet",
        ),
        pytest.param(
            HEAD + "---\nkind: Service\nmetadata: {name: x, name: y}",
            'lab.yaml:6:21: key "name" stands here twice (first in line 6)',
            id="duplicate key",
        ),
        pytest.param(
            "a: [", "lab.yaml:2:1: not YAML: did not find expected node content", id="broken"
        ),
        pytest.param(
            "kind: Pod",
            "lab.yaml:1:1: the first document must be the Lab (apiVersion: labnet.dev",
            id="a manifest first",
        ),
        pytest.param("a: &a [*a]", "lab.yaml:1:1: the first document must be", id="endless alias"),
    ],
)
def test_a_problem_is_named_where_it_stands(lab: Loader, text: str, expected: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        lab(text)

    assert expected in caught.value.message


def test_every_problem_is_reported_at_once(lab: Loader) -> None:
    text = HEAD + "spec:\n  proxy: {mode: x, style: y}\n  nodes: [{name: A}, {role: worker}]\n"

    assert len(problems(lab, text)) == 4


def test_two_services_cannot_ask_for_one_node_port(lab: Loader) -> None:
    found = problems(lab, HEAD + _service("a", 30001) + _service("b", 30001))

    assert len(found) == 1
    assert "node port 30001/TCP is already taken by Service default/a" in found[0]


def test_a_node_port_outside_the_range_is_refused(lab: Loader) -> None:
    assert "node port 80/TCP is outside 30000-32767" in problems(lab, HEAD + _service("a", 80))[0]


def _service(name: str, node_port: int) -> str:
    spec = f"{{type: NodePort, ports: [{{port: 80, nodePort: {node_port}}}]}}"
    return f"---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {spec}\n"


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(
            "{apiVersion: v1, kind: Servic, metadata: {name: a}}",
            'lab.yaml:5:24: the lab\'s API server has no Servic in v1; did you mean "Service"?',
            id="misspelt kind",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Deployment, metadata: {name: a}}",
            "Deployment is served as apps/v1 and extensions/v1beta1, not as v1",
            id="wrong version",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {port: []}}",
            'lab.yaml:5:61: unknown field "spec.port"; did you mean "ports"?',
            id="misspelt field",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 0}]}}",
            "lab.yaml:5:76: spec.ports[0].port: Invalid value: 0",
            id="refused by validation",
        ),
        pytest.param("{apiVersion: v1, kind: Pod}", "no metadata.name", id="nameless"),
    ],
)
def test_a_manifest_that_the_api_server_would_refuse_is_refused_before(
    lab: Loader, manifest: str, expected: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        lab(HEAD + "---\n" + manifest)

    assert expected in caught.value.message


def test_an_object_stands_there_once(lab: Loader) -> None:
    with pytest.raises(ScenarioError, match="ConfigMap default/a is already in line 5"):
        lab(HEAD + _config_map("a") + _config_map("a"))


def test_a_missing_include_is_a_problem_of_the_line_that_names_it(lab: Loader) -> None:
    with pytest.raises(ScenarioError, match=r"lab\.yaml:4:18: cannot read .*nope\.yaml"):
        lab(HEAD + "spec: {include: [nope.yaml]}")


_words = st.sampled_from(
    ["spec", "nodes", "name", "pins", "pods", "kind", "Lab", "a", "10.0.0.0/8"]
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=12,
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None
)
@given(spec=_values)
def test_no_spec_whatever_breaks_the_loader(lab: Loader, spec: object) -> None:
    with contextlib.suppress(ScenarioError):
        lab(HEAD + "spec: " + json.dumps(spec))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None
)
@given(text=st.text(alphabet="ab:-[]{}&*!|>'\"#%@`, \n\t", max_size=40))
def test_no_text_whatever_breaks_the_loader(lab: Loader, text: str) -> None:
    with pytest.raises(ScenarioError):
        lab(text)
