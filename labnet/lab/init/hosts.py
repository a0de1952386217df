"""A host: a node or client, as a network, mount and uts namespace and a few files.

The fork that becomes a host makes the namespaces, lays private directories, sets what
the kernel would otherwise inherit from the machine, and executes ``sleep infinity``
under the host's name: from then on it only holds the namespaces. Components and ``exec``
join them through its pidfd. Links and addresses come later, from the underlay.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from labnet.errors import Unsupported
from labnet.lab.init import places
from labnet.lab.init.forks import Ready
from labnet.linux import mounts
from labnet.linux.namespaces import NEWNET, NEWNS, NEWUTS, set_hostname, unshare
from labnet.sandbox.zygote import HostSpec

JOINED = NEWNET | NEWNS | NEWUTS
"""The namespaces that make a host."""

PAUSE = "/usr/bin/sleep"
"""A program that does nothing, in a tenth of a megabyte: it holds namespaces."""

_PRIVATE = ("/run", "/tmp", "/var/lib", "/var/log")
_SYS = Path("/proc/sys/net")
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def become_host(spec: HostSpec, keep: tuple[str, ...], lock: int | None, ready: Ready) -> None:
    """In a fork: turn into the process that holds the host ``spec``, and the lab's lock."""
    unshare(JOINED)
    set_hostname(spec.name)
    shown = places.exposed((*keep, *spec.keep), _PRIVATE)
    places.lay_private(_PRIVATE, (str(places.STATE), str(places.NETNS), *shown))
    # Namespaces that PID 1 names later must appear here, and not the other way round.
    mounts.propagation(str(places.NETNS), mounts.SLAVE)
    Path(places.ROOTS).mkdir(parents=True)
    _files(spec)
    show_network_in_sysfs()
    for path, value in network_settings(node=spec.node):
        write_setting(path, value)
    loopback_up()
    if lock is not None:
        os.set_inheritable(lock, True)
    os.execv(PAUSE, (spec.name, "infinity"))


def _files(spec: HostSpec) -> None:
    """The host's own /etc/hostname and /etc/hosts, bound over the machine's."""
    own = Path("/run/host")
    own.mkdir()
    for name, content in (("hostname", f"{spec.name}\n"), ("hosts", spec.etc_hosts)):
        (own / name).write_text(content)
        if content and Path("/etc", name).exists():
            mounts.bind(str(own / name), f"/etc/{name}")


def show_network_in_sysfs() -> None:
    """Mount a /sys that shows the interfaces of the caller's network namespace.

    Where parts of /sys are hidden (inside some containers) the kernel refuses a new
    one to a user namespace; then the machine's stays, and only /sys/class/net misleads.
    """
    try:
        mounts.mount("sysfs", "/sys", "sysfs", mounts.NOSUID | mounts.NODEV | mounts.NOEXEC)
    except PermissionError as error:
        os.write(2, f"a host's /sys stays the machine's: {error}\n".encode())


def network_settings(*, node: bool) -> Iterator[tuple[str, str]]:
    """Yield path below /proc/sys/net and value: everything a lab depends on.

    A new network namespace copies the *machine's* IPv4 settings, whatever they are.
    """
    yield "ipv4/ip_forward", "1" if node else "0"
    for where in ("all", "default"):
        for name in ("rp_filter", "accept_local", "route_localnet", "arp_ignore", "arp_announce"):
            yield f"ipv4/conf/{where}/{name}", "0"
        yield f"ipv4/conf/{where}/accept_redirects", "0"
        yield f"ipv4/conf/{where}/send_redirects", "0"
    # No link-local address on new links: it would cost a second of duplicate detection
    # and multicast traffic on every port.
    yield "ipv6/conf/default/addr_gen_mode", "1"
    yield "bridge/bridge-nf-call-iptables", "1" if node else "0"
    yield "bridge/bridge-nf-call-ip6tables", "1" if node else "0"
    yield "bridge/bridge-nf-call-arptables", "0"


def write_setting(path: str, value: str) -> None:
    """Write one setting in the caller's network namespace. Raises ``Unsupported``."""
    try:
        (_SYS / path).write_text(value)
    except FileNotFoundError as error:
        if path.startswith("ipv6/"):  # a kernel without IPv6 has nothing to set
            return
        if value == "0":  # and what is not there is off
            return
        hint = "sudo modprobe br_netfilter" if path.startswith("bridge/") else ""
        raise Unsupported(f"this kernel has no net/{path}", hint=hint) from error


def loopback_up() -> None:
    """Set ``lo`` up in the caller's network namespace; it gets 127.0.0.1 by that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        found = fcntl.ioctl(control, _SIOCGIFFLAGS, request)
        flags = struct.unpack_from("H", found, 16)[0] | _IFF_UP
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags))
