"""``/run/flannel/subnet.env``: what flanneld tells the CNI plugin of its node.

Four shell assignments. The plugin (and labnet's kubelet) waits for the file, takes the
pod subnet and the MTU from it, and a restarted flanneld reads it to ask for the same
subnet again.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path

from labnet.linux.files import write_whole

PATH = Path("/run/flannel/subnet.env")


@dataclass(frozen=True, slots=True)
class SubnetEnv:
    """The file's content."""

    network: IPv4Network  # all pods of the cluster
    subnet: IPv4Network  # the pods of this node
    mtu: int  # of a pod's interface
    ip_masquerade: bool = True


def render(env: SubnetEnv) -> str:
    """Return the file's text; the subnet is written as its first usable address."""
    first = IPv4Interface((env.subnet.network_address + 1, env.subnet.prefixlen))
    return (
        f"FLANNEL_NETWORK={env.network}\n"
        f"FLANNEL_SUBNET={first}\n"
        f"FLANNEL_MTU={env.mtu}\n"
        f"FLANNEL_IPMASQ={str(env.ip_masquerade).lower()}\n"
    )


def parse(text: str) -> SubnetEnv:
    """Read the file's text. Raises ``ValueError`` where something is missing or wrong."""
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    try:
        return SubnetEnv(
            network=IPv4Network(pairs["FLANNEL_NETWORK"]),
            subnet=IPv4Interface(pairs["FLANNEL_SUBNET"]).network,
            mtu=int(pairs["FLANNEL_MTU"]),
            ip_masquerade=pairs.get("FLANNEL_IPMASQ", "false") == "true",
        )
    except KeyError as e:
        raise ValueError(f"subnet.env has no {e.args[0]}") from e


def read(path: Path) -> SubnetEnv | None:
    """Return what ``path`` says, None where it is missing or makes no sense."""
    try:
        return parse(path.read_text())
    except (FileNotFoundError, ValueError):
        return None


def write(path: Path, env: SubnetEnv) -> bool:
    """Make ``path`` say ``env``, atomically; return whether it had to be written."""
    text = render(env)
    if path.is_file() and path.read_text() == text:
        return False
    write_whole(path, text)
    return True
