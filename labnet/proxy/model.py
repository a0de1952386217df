"""Services as a proxy sees them: portals with endpoints behind them.

A Service has no process and no interface; it is an agreement that packets to one
address and port, its *portal*, go to one of its endpoints. Everything a proxy mode
programs, in whatever part of the kernel, follows from the values here: one
:class:`Portal` for each port of each Service, with the endpoints that a node may use
already chosen. Which endpoints those are depends on the node only where a traffic
policy says Local.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """One address and port that answers for a Service."""

    address: IPv4Address
    port: int

    def __str__(self) -> str:
        """Return ``address:port``."""
        return f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class ServicePort:
    """One port of a Service, with what its type and policies ask for."""

    namespace: str
    name: str
    port_name: str  # "" where the Service's only port has none
    protocol: str  # TCP, UDP, SCTP
    cluster_ip: IPv4Address
    port: int
    node_port: int = 0  # 0: none
    external_ips: tuple[IPv4Address, ...] = ()
    load_balancer_ips: tuple[IPv4Address, ...] = ()
    source_ranges: tuple[IPv4Network, ...] = ()  # who may use the load balancer; (): all
    affinity_seconds: int = 0  # 0: no session affinity
    internal_local: bool = False  # internalTrafficPolicy: Local
    external_local: bool = False  # externalTrafficPolicy: Local
    health_check_port: int = 0

    @property
    def key(self) -> str:
        """The Service's ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_external(self) -> bool:
        """Whether it is reached by an address that is not its cluster IP."""
        return bool(self.node_port or self.external_ips or self.load_balancer_ips)

    @property
    def uses_local(self) -> bool:
        """Whether a policy sends some of its traffic to this node's endpoints only."""
        return self.internal_local or (self.external_local and self.is_external)

    @property
    def uses_cluster(self) -> bool:
        """Whether some of its traffic may go to any endpoint."""
        return not self.internal_local or self.is_external


@dataclass(frozen=True, slots=True)
class Portal:
    """A service port and the endpoints this node may send its traffic to.

    ``cluster`` are all of them, ``local`` those on this node: each holds the ready
    endpoints or, where there is none, those that still serve while they terminate.
    ``ready_here`` counts the ready ones on this node, for its health check port.
    """

    port: ServicePort
    cluster: tuple[Endpoint, ...] = ()
    local: tuple[Endpoint, ...] = ()
    ready_here: int = 0

    @property
    def exists(self) -> bool:
        """Whether the service has an endpoint anywhere.

        Without one a packet is rejected, with some but none allowed here it is dropped.
        """
        return bool(self.cluster or self.local)

    @property
    def internal(self) -> tuple[Endpoint, ...]:
        """Endpoints for traffic to the cluster IP."""
        return self.local if self.port.internal_local else self.cluster

    @property
    def external(self) -> tuple[Endpoint, ...]:
        """Endpoints for traffic to a node port, external or load balancer address."""
        return self.local if self.port.external_local else self.cluster
