"""flannel's network configuration, the JSON under ``/coreos.com/network/config``.

It says how large the pod network is, how it is cut into one subnet per node, and which
backend carries packets between nodes. Defaults and checks are those of flannel's
``pkg/subnet/config.go``; note that the first subnet is left out unless SubnetMin names
it, because its first address would be the network's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from labnet.errors import ScenarioError

PREFIX = "/coreos.com/network"
CONFIG_KEY = f"{PREFIX}/config"
SUBNETS = f"{PREFIX}/subnets/"


@dataclass(frozen=True, slots=True)
class NetConf:
    """The pod network and how it is divided."""

    network: IPv4Network
    subnet_len: int
    subnet_min: IPv4Address
    subnet_max: IPv4Address
    backend_type: str
    backend: Mapping[str, Any] = field(default_factory=dict)  # its own options

    def allows(self, subnet: IPv4Network) -> bool:
        """Return whether ``subnet`` is one a node may have."""
        return (
            subnet.prefixlen == self.subnet_len
            and self.subnet_min <= subnet.network_address <= self.subnet_max
        )


def parse(text: str | bytes) -> NetConf:
    """Read the configuration. Raises ``ScenarioError``."""
    try:
        raw = json.loads(text)
        network = IPv4Network(raw["Network"])
        length = _subnet_len(network, int(raw.get("SubnetLen") or 0))
        return NetConf(
            network=network,
            subnet_len=length,
            subnet_min=_bound(raw, "SubnetMin", network, length, _second(network, length)),
            subnet_max=_bound(raw, "SubnetMax", network, length, _last(network, length)),
            backend_type=raw.get("Backend", {}).get("Type", "udp"),
            backend=raw.get("Backend", {}),
        )
    except KeyError as e:
        raise _wrong(f"{e.args[0]} is missing") from e
    except (ValueError, TypeError, AttributeError) as e:
        raise _wrong(str(e)) from e


def _wrong(what: str) -> ScenarioError:
    return ScenarioError(
        f"flannel's configuration in {CONFIG_KEY}: {what}",
        hint="it follows from podCIDR, subnetLen and backend of the scenario",
    )


def _subnet_len(network: IPv4Network, asked: int) -> int:
    if asked > 30:
        raise ValueError(f"SubnetLen {asked}: a node's subnet needs room for a bridge and pods")
    if asked and asked < network.prefixlen + 2:
        raise ValueError(f"SubnetLen {asked}: {network} must hold at least four subnets")
    if asked:
        return asked
    if network.prefixlen > 28:
        raise ValueError(f"Network {network} is too small, /28 is the least")
    return 24 if network.prefixlen <= 22 else network.prefixlen + 2


def _second(network: IPv4Network, length: int) -> IPv4Address:
    return network.network_address + (1 << (32 - length))


def _last(network: IPv4Network, length: int) -> IPv4Address:
    return network.broadcast_address - ((1 << (32 - length)) - 1)


def _bound(
    raw: Mapping[str, Any], key: str, network: IPv4Network, length: int, default: IPv4Address
) -> IPv4Address:
    if not raw.get(key):
        return default
    bound = IPv4Address(raw[key])
    if bound not in network:
        raise ValueError(f"{key} {bound} is not in {network}")
    if int(bound) % (1 << (32 - length)):
        raise ValueError(f"{key} {bound} is not where a /{length} begins")
    return bound
