"""Tries out what this kernel can do, in namespaces that vanish with the process.

Asking the kernel is the only honest probe: modules may be built in, loaded on demand or
missing, and a container may forbid what the kernel could do. So `labnet doctor` runs
this module in a process of its own; it enters new namespaces as a lab would, makes one
of each kind of device and prints, as JSON, what was refused and why. Nothing survives it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from labnet.kernel import netlink as nl
from labnet.kernel.encode import IFINFO, IFLA_IFNAME, IFLA_LINKINFO, INFO_DATA, INFO_KIND, VXLAN_ID
from labnet.kernel.netlink import Message, Netlink

Report = dict[str, str]  # capability: what the kernel said, "" if all is well

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x0002_0000, 0x1000_0000, 0x4000_0000
_GENL_CONTROL, _GETFAMILY, _FAMILY_NAME = 16, 3, 2
_NEWQDISC, _TCA_KIND, _TCA_OPTIONS, _ROOT = 36, 1, 2, 0xFFFF_FFFF
_NFT_GETGEN = (10 << 8) | 16  # subsystem nf_tables, message NFT_MSG_GETGEN
_NETLINK_NETFILTER, _NETLINK_GENERIC = 12, 16
_LOOPBACK_INDEX = 1


def main() -> None:
    """Probe everything and print the report."""
    report: Report = {}
    if os.geteuid() != 0:
        report["user namespaces"] = _tried(_enter_user_namespace)
    if not report.get("user namespaces"):
        report["network namespaces"] = _tried(lambda: _unshare(CLONE_NEWNET | CLONE_NEWNS))
    if not any(report.values()):
        report |= {name: _tried(probe) for name, probe in _PROBES.items()}
    json.dump(report, sys.stdout)


def _tried(probe: Callable[[], None]) -> str:
    try:
        probe()
    except (OSError, nl.Refused) as refused:
        return getattr(refused, "strerror", None) or str(refused)
    return ""


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _enter_user_namespace() -> None:
    uid, gid = os.geteuid(), os.getegid()
    _unshare(CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def _link(kind: str, *data: bytes) -> Callable[[], None]:
    def probe() -> None:
        info = nl.text(INFO_KIND, kind) + (nl.nested(INFO_DATA, *data) if data else b"")
        body = IFINFO.pack(0, 0, 0, 0, 0) + nl.text(IFLA_IFNAME, f"probe-{kind[:8]}")
        body += nl.attribute(IFLA_LINKINFO | nl.NESTED, info)
        _carry_out(Message(nl.RTM_NEWLINK, body, nl.CREATE | nl.EXCL))

    return probe


def _netem() -> None:
    body = struct.pack("=BxxxiIII", 0, _LOOPBACK_INDEX, 0, _ROOT, 0)
    body += nl.text(_TCA_KIND, "netem") + nl.attribute(_TCA_OPTIONS, struct.pack("=6I", *[0] * 6))
    _carry_out(Message(_NEWQDISC, body, nl.CREATE | nl.EXCL))


def _carry_out(message: Message) -> None:
    with Netlink() as netlink:
        for refusal in netlink.batch([message]).values():
            # An unknown kind is EOPNOTSUPP for a link and ENOENT for a queue.
            raise OSError(refusal.errno, str(refusal))


def _tun() -> None:
    os.close(os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC))


def _nf_tables() -> None:
    _ask(_NETLINK_NETFILTER, _NFT_GETGEN, struct.pack("!BBH", socket.AF_INET, 0, 0))


def _ip_vs() -> None:
    request = struct.pack("=BBH", _GETFAMILY, 1, 0) + nl.text(_FAMILY_NAME, "IPVS")
    _ask(_NETLINK_GENERIC, _GENL_CONTROL, request)


def _ask(protocol: int, kind: int, body: bytes) -> None:
    """Send one request on a netlink socket; raise what the kernel answers."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as netlink:
        netlink.settimeout(2.0)
        header = nl.HEADER.pack(nl.HEADER.size + len(body), kind, nl.REQUEST | nl.ACK, 1, 0)
        netlink.send(header + body)
        answer = netlink.recv(1 << 16)
    _, answered, *_ = nl.HEADER.unpack_from(answer)
    if answered == nl.NLMSG_ERROR and (number := -nl.ERROR.unpack_from(answer, nl.HEADER.size)[0]):
        raise OSError(number, os.strerror(number))


def _exists(path: str) -> Callable[[], None]:
    def probe() -> None:
        if not Path(path).exists():
            raise OSError(errno.ENOENT, f"{path} is not there")

    return probe


_PROBES: dict[str, Callable[[], None]] = {
    "veth": _link("veth"),
    "bridge": _link("bridge"),
    "vxlan": _link("vxlan", nl.u32(VXLAN_ID, 1)),
    "dummy": _link("dummy"),
    "tun": _tun,
    "nf_tables": _nf_tables,
    "br_netfilter": _exists("/proc/sys/net/bridge/bridge-nf-call-iptables"),
    "ip_vs": _ip_vs,
    "netem": _netem,
}

if __name__ == "__main__":
    main()
