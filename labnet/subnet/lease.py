"""The lease: a node's claim on one subnet, and where to reach that node.

In etcd it is one key per subnet, ``/coreos.com/network/subnets/10.244.1.0-24``, whose
value says how packets get there. Key and JSON are flannel's (``pkg/lease/lease.go``,
``MakeSubnetKey``), byte for byte, so a real flanneld reads ours and we read its.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from labnet.subnet.config import SUBNETS

_KEY = re.compile(r"(\d+\.\d+\.\d+\.\d+)-(\d+)(?:&.*)?")  # & begins an IPv6 subnet


@dataclass(frozen=True, slots=True, order=True)
class Lease:
    """One node's subnet. ``vni`` and ``vtep_mac`` are the vxlan backend's data."""

    subnet: IPv4Network
    public_ip: IPv4Address
    backend_type: str
    vni: int = 0
    vtep_mac: str = ""


def key(subnet: IPv4Network) -> str:
    """Return the key of ``subnet``'s lease."""
    return f"{SUBNETS}{subnet.network_address}-{subnet.prefixlen}"


def value(lease: Lease) -> bytes:
    """Return what is stored under the key: flannel's LeaseAttrs."""
    attributes: dict[str, object] = {
        "PublicIP": str(lease.public_ip),
        "PublicIPv6": None,
        "BackendType": lease.backend_type,
    }
    if lease.vtep_mac:
        attributes["BackendData"] = {"VNI": lease.vni, "VtepMAC": lease.vtep_mac}
    return json.dumps(attributes, separators=(",", ":")).encode()


def parse(stored_key: str, stored_value: bytes) -> Lease | None:
    """Read a lease; None for a key or value that is something else."""
    match = _KEY.fullmatch(stored_key.removeprefix(SUBNETS))
    if not match:
        return None
    try:
        attributes = json.loads(stored_value)
        data = attributes.get("BackendData") or {}
        return Lease(
            subnet=IPv4Network(f"{match[1]}/{match[2]}"),
            public_ip=IPv4Address(attributes["PublicIP"]),
            backend_type=attributes.get("BackendType", ""),
            vni=int(data.get("VNI", 0)),
            vtep_mac=str(data.get("VtepMAC", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
