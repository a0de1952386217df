"""What a machine lacks, and the command that gives it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labnet.errors import Unsupported
from labnet.lab.capabilities import (
    PROGRAMS,
    Machine,
    capabilities,
    require_programs,
    user_namespace_remedy,
)

FEATURES = (
    "user namespaces",
    "network namespaces",
    "veth",
    "bridge",
    "vxlan",
    "tun",
    "nf_tables",
    "br_netfilter",
    "ip_vs",
    "dummy",
    "netem",
)
ALL_PROGRAMS = {name: f"/bin/{name}" for name in ("etcd", "kubectl", "docker")} | {
    program.name: f"/bin/{program.name}" for program in PROGRAMS
}
COMPLETE = Machine(dict.fromkeys(FEATURES, ""), ALL_PROGRAMS, {}, is_root=False)


def remedies(machine: Machine) -> dict[str, str]:
    return {one.name: one.remedy for one in capabilities(machine) if not one.present}


def test_a_complete_machine_lacks_only_what_root_would_have() -> None:
    assert remedies(COMPLETE) == {"docker": "run labnet with sudo"}
    assert remedies(replace(COMPLETE, is_root=True)) == {}


@pytest.mark.parametrize(
    ("sysctls", "remedy"),
    [
        ({"user.max_user_namespaces": "0"}, "sudo sysctl -w user.max_user_namespaces=15000"),
        (
            {"kernel.unprivileged_userns_clone": "0"},
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            {"kernel.apparmor_restrict_unprivileged_userns": "1"},
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_no_user_namespaces_names_the_setting_that_forbids_them(
    sysctls: dict[str, str], remedy: str
) -> None:
    assert user_namespace_remedy(sysctls) == remedy

    probed = {"user namespaces": "Operation not permitted"}
    refused = replace(COMPLETE, probed=probed, sysctls=sysctls)
    assert remedies(refused)["user namespaces"] == remedy


def test_a_missing_kernel_feature_names_module_and_way_out() -> None:
    machine = replace(COMPLETE, probed={**COMPLETE.probed, "ip_vs": "No such file or directory"})

    assert remedies(machine)["ip_vs"] == ("as root: modprobe ip_vs; else use --proxy-mode iptables")


def test_what_cannot_be_tried_is_not_called_missing() -> None:
    probed = {"user namespaces": "Operation not permitted"}

    found = {one.name: one.detail for one in capabilities(replace(COMPLETE, probed=probed))}

    assert found["vxlan"] == "not tried"


def test_a_missing_program_names_its_package() -> None:
    machine = replace(COMPLETE, programs={**ALL_PROGRAMS, "dig": ""})

    assert remedies(machine)["dig"] == "apt install bind9-dnsutils"


def test_up_needs_etcd_and_iptables_and_says_how_to_get_both() -> None:
    with pytest.raises(Unsupported, match="no etcd, no iptables-restore") as refused:
        require_programs({**ALL_PROGRAMS, "etcd": "", "iptables-restore": "", "dig": ""})

    assert refused.value.hint.startswith("apt install etcd-server iptables;")
    require_programs({**ALL_PROGRAMS, "dig": ""})
