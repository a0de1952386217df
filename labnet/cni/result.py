"""CNI's two documents: the network configuration list and the result.

The runtime reads a list of plugins from ``/etc/cni/net.d`` and runs them in turn; each
prints a result that says which interfaces and addresses it made. The runtime keeps
that result per container in ``/var/lib/cni/results`` so that CHECK and DEL, maybe after
a restart, know what ADD did. labnet's kubelet keeps the same files in the same form
(CNI specification 1.0.0, sections 1 and 5; libcni's cache).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

from labnet.cni.bridge import BRIDGE, INTERFACE

CNI_VERSION = "1.0.0"
NETWORK = "cbr0"  # the name flannel's manifests give the pod network


@dataclass(frozen=True, slots=True)
class Attachment:
    """What ADD made for one container."""

    container: str  # CNI's id of the pod sandbox
    address: IPv4Interface
    gateway: IPv4Address
    bridge: str
    port: str
    port_mac: str
    mac: str
    interface: str = INTERFACE


def container_id(sandbox: str) -> str:
    """Return ``sandbox`` as CNI accepts it: letters, digits, ``_``, ``.`` and ``-``."""
    return sandbox.replace("/", "-")


def conflist(mtu: int, subnet: IPv4Network) -> dict[str, Any]:
    """Return the network configuration list that describes the pod network."""
    return {
        "cniVersion": CNI_VERSION,
        "name": NETWORK,
        "plugins": [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "mtu": mtu,
                "isDefaultGateway": True,
                "hairpinMode": True,
                "ipMasq": False,  # flanneld's rules do it, for the whole node
                "ipam": {"type": "host-local", "ranges": [[{"subnet": str(subnet)}]]},
            }
        ],
    }


def result(a: Attachment, bridge_mac: str) -> dict[str, Any]:
    """Return the ADD result: bridge, port and pod interface, address, default route.

    ``sandbox`` is the container's id: the kubelet has its network namespace as an open
    descriptor, not under a path.
    """
    return {
        "cniVersion": CNI_VERSION,
        "interfaces": [
            {"name": a.bridge, "mac": bridge_mac},
            {"name": a.port, "mac": a.port_mac},
            {"name": a.interface, "mac": a.mac, "sandbox": a.container},
        ],
        "ips": [{"address": str(a.address), "gateway": str(a.gateway), "interface": 2}],
        "routes": [{"dst": "0.0.0.0/0", "gw": str(a.gateway)}],
        "dns": {},
    }


def cached(a: Attachment, bridge_mac: str, sandbox: str, labels: Mapping[str, str]) -> str:
    """Return the cache file of one attachment, as libcni writes it."""
    arguments = {"K8S_POD_INFRA_CONTAINER_ID": sandbox, **labels}
    document = {
        "kind": "cniCacheV1",
        "containerId": a.container,
        "ifName": a.interface,
        "networkName": NETWORK,
        "cniArgs": [[key, value] for key, value in arguments.items()],
        "result": result(a, bridge_mac),
    }
    return json.dumps(document)


def parse_cached(text: str) -> tuple[str, Attachment]:
    """Return the sandbox and its attachment from a cache file.

    Raises ``ValueError`` or ``LookupError`` for a file that is something else.
    """
    document = json.loads(text)
    made = document["result"]
    bridge, port, interface = made["interfaces"]
    (ip,) = made["ips"]
    sandbox = dict(document["cniArgs"])["K8S_POD_INFRA_CONTAINER_ID"]
    return sandbox, Attachment(
        container=document["containerId"],
        address=IPv4Interface(ip["address"]),
        gateway=IPv4Address(ip["gateway"]),
        bridge=bridge["name"],
        port=port["name"],
        port_mac=port["mac"],
        mac=interface["mac"],
        interface=document["ifName"],
    )


def cache_name(container: str, interface: str = INTERFACE) -> str:
    """Return the file name of a container's cached result."""
    return f"{NETWORK}-{container}-{interface}"
