"""What a container may do: capabilities, and the paths of /proc it may not touch.

Root in a container keeps a dozen of the kernel's forty capabilities; the list is
Docker's, without MKNOD, since a device file made in a pod would reach the machine's
disks. What a pod asks for on top must be harmless to the machine even when the lab was
started by root: everything about its own network and processes is, SYS_ADMIN is not.
"""

from __future__ import annotations

from labnet.errors import LabnetError
from labnet.sandbox.pod import Pod, Security

DEFAULT_CAPABILITIES = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE",
    "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
GRANTABLE = frozenset(
    (*DEFAULT_CAPABILITIES, "IPC_LOCK", "IPC_OWNER", "NET_ADMIN", "NET_BROADCAST", "SYS_NICE",
     "SYS_PTRACE")
)  # fmt: skip
# As containerd's and Docker's default OCI spec have them.
MASKED_PATHS = (
    "/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys",
    "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list",
    "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
)  # fmt: skip
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
# Sysctls that Kubernetes calls safe: they belong to the pod's own net or ipc namespace.
SAFE_SYSCTLS = frozenset(
    ("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
     "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
     "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time",
     "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
     "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
)  # fmt: skip


class Refused(LabnetError):
    """The pod asks for what this runtime does not give; the message goes into an event."""


def capabilities(security: Security) -> tuple[str, ...]:
    """Return the container's capabilities, sorted. Raises ``Refused``."""
    have = set() if "ALL" in security.drop else set(DEFAULT_CAPABILITIES) - set(security.drop)
    wanted = GRANTABLE if "ALL" in security.add else set(security.add)
    if beyond := sorted(wanted - GRANTABLE):
        raise Refused(
            f"capability {', '.join(beyond)} would reach beyond the lab and is not given",
            hint=f"a pod can have {', '.join(sorted(GRANTABLE))}",
        )
    return tuple(sorted(have | wanted))


def check_container(security: Security, *, one_uid: bool) -> None:
    """Raise ``Refused`` where ``security`` cannot be honoured.

    ``one_uid``: the lab runs as an ordinary user with a single uid mapped, so that a
    process cannot become anybody but root.
    """
    if security.privileged:
        raise Refused(
            "privileged containers are not run: they would own the machine, not the lab",
            hint="capabilities.add: [NET_ADMIN] is enough for the pod's own network",
        )
    if security.run_as_non_root and security.run_as_user in (None, 0):
        raise Refused("container has runAsNonRoot and image will run as root")
    users = (security.run_as_user or 0, security.run_as_group or 0)
    if one_uid and any(users):
        raise Refused(
            f"runAsUser {users[0]}, runAsGroup {users[1]}: this lab has one uid, root",
            hint="start the lab as root to run containers as other users",
        )


def check_pod(pod: Pod) -> None:
    """Raise ``Refused`` for what no sandbox of this runtime can give ``pod``."""
    if unsafe := sorted(name for name, _ in pod.sysctls if name not in SAFE_SYSCTLS):
        raise Refused(f"forbidden sysctl: {', '.join(unsafe)} not allowlisted")
    if pod.host_network and pod.sysctls:
        raise Refused("sysctls of the network cannot be set by a pod with hostNetwork")
