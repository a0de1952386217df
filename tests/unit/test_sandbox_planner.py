"""From a pod object to sandbox and container specs."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest

from labnet.image import catalogue
from labnet.sandbox import etc, planner
from labnet.sandbox.environment import expand
from labnet.sandbox.pod import Pod
from labnet.sandbox.pod_object import parse
from labnet.sandbox.security import Refused
from labnet.sandbox.spec import ContainerSpec, Mount
from tests.unit.kubelet_rig import MACHINE

ADDRESS = IPv4Address("10.244.2.5")


def pod(**spec: Any) -> Pod:
    metadata = {
        "name": "web",
        "namespace": "shop",
        "uid": "u1",
        "labels": {"app": "web"},
    }
    spec.setdefault("containers", [{"name": "web", "image": "nginx"}])
    return parse({"metadata": metadata, "spec": {"nodeName": "node1", **spec}})


def plan(of: Pod, *, one_uid: bool = False, **sources: dict[str, str]) -> ContainerSpec:
    """Return the plan of the first container."""
    container = of.containers[0]
    _, image = catalogue.find(container.image)
    command = catalogue.command_for(image, container.command, container.args)
    parts = planner.ImageParts(image.env, image.cwd, command.argv, command.program, image.programs)
    around = planner.Surroundings(
        replace(MACHINE, one_uid=one_uid),
        ADDRESS,
        {volume.name: f"/var/lib/kubelet/{volume.name}" for volume in of.volumes},
        {("configmap", name): data for name, data in sources.items()},
    )
    return planner.plan_container(
        of, container, parts, around, sandbox="u1/0", attempt=2, backoff=20.0
    )


def one(**container: Any) -> Pod:
    return pod(containers=[{"name": "web", "image": "nginx", **container}])


def mount(spec: ContainerSpec, target: str) -> Mount:
    return next(m for m in spec.mounts if m.target == target)


def test_the_sandbox_carries_the_pods_name_and_labels() -> None:
    spec = planner.plan_sandbox(pod(), 1, MACHINE)
    assert (spec.id, spec.node, spec.hostname, spec.host_network) == ("u1/1", "node1", "web", False)
    assert dict(spec.labels)["io.kubernetes.pod.uid"] == "u1"


def test_a_container_is_labelled_with_what_a_restarted_kubelet_must_know() -> None:
    spec = plan(pod())
    assert spec.id == "u1/web/2"
    labels = dict(spec.labels)
    assert labels["io.kubernetes.container.name"] == "web"
    assert labels["labnet.dev/backoff"] == "20"


def test_the_root_shows_usr_and_nothing_private() -> None:
    spec = plan(pod())
    bound = [m.source for m in spec.mounts if m.kind == "bind"]
    assert "/usr" in bound
    assert all("ro" in m.options for m in spec.mounts if m.target in ("/usr", "/lib64"))
    private = ("/home", "/root", "/run", "/var", "/etc/shadow", "/etc/ssl/private", "/tmp")
    assert not [source for source in bound if source.startswith(private)]
    assert "/etc" not in bound
    assert "/" not in bound


def test_usr_comes_before_everything_that_lies_in_it() -> None:
    targets = [m.target for m in plan(pod()).mounts]
    assert targets[0] == "/usr"
    assert len(targets) == len(set(targets))


def test_built_in_programs_are_scripts_for_shells() -> None:
    script = mount(plan(pod()), "/opt/image/bin/nginx")
    assert script.options == ("mode=755",)
    assert script.content.startswith("#!/usr/bin/python3 -BES\n")
    assert "import main" in script.content


# -- /etc ----------------------------------------------------------------------------------


def test_hosts_is_as_the_kubelet_writes_it() -> None:
    assert mount(plan(pod()), "/etc/hosts").content == (
        "# Kubernetes-managed hosts file.\n"
        "127.0.0.1\tlocalhost\n"
        "::1\tlocalhost ip6-localhost ip6-loopback\n"
        "fe00::0\tip6-localnet\n"
        "fe00::0\tip6-mcastprefix\n"
        "fe00::1\tip6-allnodes\n"
        "fe00::2\tip6-allrouters\n"
        "10.244.2.5\tweb\n"
    )


def test_hosts_has_the_full_name_of_a_pod_with_a_subdomain_and_its_aliases() -> None:
    alias = {"ip": "1.2.3.4", "hostnames": ["a", "b"]}
    text = etc.hosts(pod(subdomain="db", hostAliases=[alias]), ADDRESS, "cluster.local")
    assert "10.244.2.5\tweb.db.shop.svc.cluster.local\tweb\n" in text
    assert text.endswith("\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n")


def test_cluster_first_asks_the_clusters_dns() -> None:
    assert mount(plan(pod()), "/etc/resolv.conf").content == (
        "search shop.svc.cluster.local svc.cluster.local cluster.local\n"
        "nameserver 10.96.0.10\n"
        "options ndots:5\n"
    )


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"dnsPolicy": "Default"}, "nameserver 9.9.9.9\n"),
        ({"hostNetwork": True}, "nameserver 9.9.9.9\n"),
        ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}}, "nameserver 1.1.1.1\n"),
        (
            {"dnsConfig": {"options": [{"name": "ndots", "value": "2"}], "searches": ["x.y"]}},
            "search shop.svc.cluster.local svc.cluster.local cluster.local x.y\n"
            "nameserver 10.96.0.10\noptions ndots:2\n",
        ),
    ],
)
def test_the_dns_policy_decides_whom_to_ask(spec: dict[str, Any], text: str) -> None:
    node_file = "# comment\nnameserver 9.9.9.9\n"
    assert etc.resolv_conf(pod(**spec), MACHINE.cluster_dns, "cluster.local", node_file) == text


def test_without_a_cluster_dns_the_nodes_own_is_asked() -> None:
    assert etc.resolv_conf(pod(), None, "cluster.local", "nameserver 9.9.9.9\n") == (
        "nameserver 9.9.9.9\n"
    )


# -- environment ---------------------------------------------------------------------------


def test_variables_refer_to_the_pod_and_to_each_other() -> None:
    env = [
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "URL", "value": "http://$(IP):80/$(NAME)"},
    ]
    spec = plan(one(env=env, args=["$(URL)", "$(NOPE)", "$$(IP)"], command=["curl"]))
    variables = dict(spec.env)
    assert variables["APP"] == "web"
    assert variables["NODE_IP"] == "192.168.50.11"
    assert spec.argv == ("curl", "http://10.244.2.5:80/web", "$(NOPE)", "$(IP)")
    assert variables["HOSTNAME"] == "web"
    assert "/usr/bin" in variables["PATH"]


def test_a_config_map_gives_single_keys_and_all_of_them() -> None:
    ref = {"configMapKeyRef": {"name": "settings", "key": "mode"}}
    spec = plan(
        one(
            env=[{"name": "MODE", "valueFrom": ref}],
            envFrom=[{"prefix": "C_", "configMapRef": {"name": "settings"}}],
        ),
        settings={"mode": "fast"},
    )
    assert dict(spec.env)["MODE"] == dict(spec.env)["C_mode"] == "fast"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"configMapKeyRef": {"name": "gone", "key": "a"}}, 'configmap "gone" not found'),
        ({"configMapKeyRef": {"name": "settings", "key": "a"}}, "couldn't find key a"),
        ({"resourceFieldRef": {"resource": "cpu"}}, "resourceFieldRef is not supported"),
        ({"fieldRef": {"fieldPath": "spec.x"}}, "fieldPath 'spec.x' is not supported"),
    ],
)
def test_a_reference_to_what_is_not_there_is_refused(source: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        plan(one(env=[{"name": "A", "valueFrom": source}]), settings={})


def test_an_optional_reference_may_be_missing() -> None:
    ref = {"configMapKeyRef": {"name": "gone", "key": "a", "optional": True}}
    assert "A" not in dict(plan(one(env=[{"name": "A", "valueFrom": ref}])).env)


def test_expansion_leaves_what_it_does_not_know() -> None:
    assert expand("$(A) $(B) $$ $(", {"A": "1"}) == "1 $(B) $ $("


# -- security ------------------------------------------------------------------------------


def test_root_in_a_container_keeps_dockers_capabilities_but_mknod() -> None:
    have = plan(pod()).capabilities
    assert "NET_RAW" in have
    assert "MKNOD" not in have
    assert "SYS_ADMIN" not in have


def test_capabilities_are_added_and_dropped() -> None:
    context = {"capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}}
    assert plan(one(securityContext=context)).capabilities == ("NET_ADMIN",)
    context = {"capabilities": {"drop": ["CAP_NET_RAW"]}}
    assert "NET_RAW" not in plan(one(securityContext=context)).capabilities


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"privileged": True}, "privileged containers are not run"),
        ({"capabilities": {"add": ["SYS_ADMIN"]}}, "SYS_ADMIN would reach beyond the lab"),
        ({"runAsNonRoot": True}, "image will run as root"),
    ],
)
def test_what_would_reach_the_machine_is_refused(context: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        plan(one(securityContext=context))


def test_another_user_needs_more_than_one_uid() -> None:
    other = one(securityContext={"runAsUser": 1000})
    assert plan(other).run_as_user == 1000
    assert "user:x:1000:" in mount(plan(other), "/etc/passwd").content
    with pytest.raises(Refused, match="this lab has one uid"):
        plan(other, one_uid=True)


def test_an_unsafe_sysctl_is_refused_and_a_safe_one_set() -> None:
    safe = {"sysctls": [{"name": "net.ipv4.ip_local_port_range", "value": "1 2"}]}
    assert planner.plan_sandbox(pod(securityContext=safe), 0, MACHINE).sysctls
    unsafe = {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}
    with pytest.raises(Refused, match=r"kernel\.msgmax not allowlisted"):
        planner.plan_sandbox(pod(securityContext=unsafe), 0, MACHINE)


# -- volumes -------------------------------------------------------------------------------


def test_a_volume_is_bound_where_the_container_wants_it() -> None:
    spec = plan(
        pod(
            volumes=[{"name": "data", "emptyDir": {}}],
            containers=[
                {
                    "name": "web",
                    "image": "nginx",
                    "volumeMounts": [
                        {"name": "data", "mountPath": "/data"},
                        {"name": "data", "mountPath": "/a", "subPath": "b", "readOnly": True},
                    ],
                }
            ],
        )
    )
    assert mount(spec, "/data").source == "/var/lib/kubelet/data"
    assert mount(spec, "/a").source == "/var/lib/kubelet/data/b"
    assert "ro" in mount(spec, "/a").options


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../../b"])
def test_a_sub_path_stays_in_its_volume(path: str) -> None:
    mounts = [{"name": "data", "mountPath": "/data", "subPath": path}]
    with pytest.raises(Refused, match="leaves the volume"):
        plan(
            pod(
                volumes=[{"name": "data"}],
                containers=[{"name": "web", "image": "nginx", "volumeMounts": mounts}],
            )
        )


def test_an_unsupported_volume_is_named() -> None:
    with pytest.raises(Refused, match='volume "disk": hostPath is not supported'):
        planner.check_volumes(pod(volumes=[{"name": "disk", "hostPath": {"path": "/"}}]))


def test_a_config_map_volume_has_its_keys_or_those_asked_for() -> None:
    whole = pod(volumes=[{"name": "c", "configMap": {"name": "c"}}]).volumes[0]
    assert planner.volume_files(whole, {"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
    items = {"name": "c", "items": [{"key": "a", "path": "d/x"}]}
    part = pod(volumes=[{"name": "c", "configMap": items}]).volumes[0]
    assert planner.volume_files(part, {"a": "1", "b": "2"}) == {"d/x": "1"}
    with pytest.raises(Refused, match="non-existent config key: a"):
        planner.volume_files(part, {"b": "2"})


# -- parsing -------------------------------------------------------------------------------


def test_a_probe_finds_its_port_by_name_and_has_kubernetes_defaults() -> None:
    probe = {"httpGet": {"port": "http", "path": "/ok"}}
    ports = [{"name": "http", "containerPort": 8080}]
    found = one(readinessProbe=probe, ports=ports).containers[0].readiness
    assert found is not None
    assert (found.action.port, found.action.path) == (8080, "/ok")
    assert (found.period, found.timeout, found.failure_threshold) == (10.0, 1.0, 3)
