"""Reading the machine: what containers can be built from, and what the node reports.

The only place that looks at the file system for it, once, when the kubelet starts; the
planners work on the values.
"""

from __future__ import annotations

import os
import platform
from ipaddress import IPv4Address
from pathlib import Path

import labnet.image.programs
from labnet.linux.userns import one_uid
from labnet.node.kubelet.node import Host
from labnet.sandbox.root import SHARED_ETC, Machine

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # uname's words to Go's
TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")


def read_machine(
    node: str, address: IPv4Address, domain: str, cluster_dns: IPv4Address | None
) -> Machine:
    """Return what a container's root can be made of on this machine."""
    top = [Path(path) for path in TOP if Path(path).exists()]
    return Machine(
        node=node,
        address=address,
        domain=domain,
        cluster_dns=cluster_dns,
        top_links=tuple((str(p), str(p.readlink())) for p in top if p.is_symlink()),
        top_dirs=tuple(str(p) for p in top if not p.is_symlink()),
        etc=tuple(path for path in SHARED_ETC if Path(path).exists()),
        python=next((path for path in PYTHONS if Path(path).exists()), ""),
        programs=str(Path(labnet.image.programs.__file__).parent),
        hosts=_text("/etc/hosts"),
        resolv_conf=_text("/etc/resolv.conf"),
        one_uid=one_uid(),
    )


def read_host() -> Host:
    """Return what ``kubectl describe node`` shows of this machine."""
    release = dict(
        line.split("=", 1) for line in _text("/etc/os-release").splitlines() if "=" in line
    )
    memory = next(
        (line.split()[1] for line in _text("/proc/meminfo").splitlines() if "MemTotal" in line), "0"
    )
    uname = platform.uname()
    return Host(
        cpus=len(os.sched_getaffinity(0)),
        memory_kib=int(memory),
        kernel=uname.release,
        os_image=release.get("PRETTY_NAME", "Linux").strip('"'),
        architecture=ARCHITECTURES.get(uname.machine, uname.machine),
        boot_id=_text("/proc/sys/kernel/random/boot_id").strip(),
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
