"""Every name labnet generates, and how long it may be.

The kernel caps an interface name at 15 bytes (IFNAMSIZ 16 with its NUL) and a chain
name at 28. kube-proxy therefore hashes: base32(sha256(text)), first 16 characters,
behind a prefix that says what the chain is for (kubernetes ``pkg/proxy/iptables``,
``portProtoHash``). Names are pure functions of what they stand for, so a restarted
component finds its own things again.
"""

from __future__ import annotations

from base64 import b32encode
from hashlib import sha256

MASQUERADE_MARK = "0x4000/0x4000"
"""kube-proxy's mark on packets to be masqueraded; flannel must leave those alone."""

POD_IP_ANNOTATION = "labnet.dev/pod-ip"
"""On a pod: the address it must have. The scheduler writes it, the kubelet obeys."""

IFNAME_MAX = 15
CHAIN_MAX = 28


def chain_hash(text: str) -> str:
    """Return the 16 characters that kube-proxy puts behind a chain's prefix."""
    # 10 bytes are 16 characters exactly; encoding all 32 would cost three times as much.
    return b32encode(sha256(text.encode()).digest()[:10]).decode()


def service_chain(prefix: str, service_port: str, protocol: str) -> str:
    """Return e.g. ``KUBE-SVC-…`` for ``namespace/name:port`` and a protocol."""
    return f"{prefix}-{chain_hash(service_port + protocol.lower())}"


def endpoint_chain(service_port: str, protocol: str, endpoint: str) -> str:
    """Return the ``KUBE-SEP-…`` of one ``ip:port`` behind a service port."""
    return f"KUBE-SEP-{chain_hash(service_port + protocol.lower() + endpoint)}"


def host_veth(sandbox: str, interface: str = "eth0") -> str:
    """Return the node's end of a pod's cable: ``veth`` and 8 hex digits, as CNI does.

    CNI draws the digits at random; here they are a hash of pod sandbox and interface,
    so that the same pod always has the same name.
    """
    return "veth" + sha256(f"{sandbox}/{interface}".encode()).hexdigest()[:8]


def underlay_port(host: str) -> str:
    """Return the underlay bridge's port for ``host``: readable, and within 15 bytes."""
    name = f"ul-{host}"
    if len(name) <= IFNAME_MAX:
        return name
    return f"ul-{host[:5]}-{sha256(host.encode()).hexdigest()[:6]}"
