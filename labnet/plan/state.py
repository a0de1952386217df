"""What a node's network looks like, desired or observed.

The same type serves both sides: planners build a desired :class:`NodeState`, the
kernel reports an observed one, and :mod:`labnet.plan.diff` compares them. A node has
one network namespace and several components that work in it (flanneld, the kubelet's
CNI plugin, the person at the keyboard), so each component says with a :class:`Scope`
which devices it answers for; everything else is invisible to its diff.

Routes are ours when they carry route protocol 76 (``ip route show proto 76``): the
kernel's own connected routes and the default route never appear here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

ROUTE_PROTOCOL = 76  # unassigned in /etc/iproute2/rt_protos


@dataclass(frozen=True, slots=True, order=True)
class Vxlan:
    """What makes a link a VXLAN tunnel end point. None of it can be changed later."""

    vni: int
    port: int  # UDP, 8472 with flannel (Linux' own default, older than IANA's 4789)
    local: IPv4Address  # source of the outer packet
    dev: str  # interface the outer packet leaves by
    learning: bool = False  # False: only entries that somebody wrote are used


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """One network interface.

    ``mac`` empty means whatever the kernel chose. ``hairpin`` lets a bridge send a
    frame back through the port it came from, which a pod needs to reach itself
    through a Service.
    """

    name: str
    kind: str  # "bridge", "vxlan", "veth"; "" for hardware
    mtu: int = 1500
    mac: str = ""
    up: bool = True
    master: str = ""  # the bridge it is a port of
    hairpin: bool = False
    vxlan: Vxlan | None = None


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """An IPv4 address with its prefix length on a device."""

    dev: str
    interface: IPv4Interface


@dataclass(frozen=True, slots=True, order=True)
class Route:
    """A route in the main table, marked with labnet's route protocol.

    ``onlink`` tells the kernel to believe that ``via`` is a neighbour on ``dev`` even
    though no address there covers it; flannel's VXLAN routes need that.
    """

    dst: IPv4Network
    via: IPv4Address
    dev: str
    onlink: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Neighbour:
    """A permanent ARP entry: nobody is asked who has ``ip``."""

    dev: str
    ip: IPv4Address
    mac: str


@dataclass(frozen=True, slots=True, order=True)
class Forwarding:
    """An entry of a VXLAN device's own table: frames for ``mac`` go to host ``dst``."""

    dev: str
    mac: str
    dst: IPv4Address


@dataclass(frozen=True, slots=True, order=True)
class Sysctl:
    """A kernel setting of the namespace, by its dotted name."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Cable:
    """A veth pair from a port of a bridge here to an interface in another namespace.

    This is how a pod hangs on ``cni0`` and a host on the underlay. The far end gets
    ``address``, a default route via ``gateway``, and a loopback that is up.
    """

    port: str
    bridge: str
    interface: str
    address: IPv4Interface
    gateway: IPv4Address
    mac: str  # of the far end
    port_mac: str
    mtu: int = 1500
    hairpin: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a node that one component answers for.

    ``links``: devices it makes, with their addresses, neighbours and forwarding
    entries; ``routes``: devices it puts routes on; ``sysctls``: settings it makes.
    """

    links: frozenset[str] = frozenset()
    routes: frozenset[str] = frozenset()
    sysctls: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeState:
    """What one component wants, or the kernel reports, in a network namespace."""

    links: frozenset[Link] = field(default_factory=frozenset)
    addresses: frozenset[Address] = field(default_factory=frozenset)
    routes: frozenset[Route] = field(default_factory=frozenset)
    neighbours: frozenset[Neighbour] = field(default_factory=frozenset)
    forwardings: frozenset[Forwarding] = field(default_factory=frozenset)
    sysctls: frozenset[Sysctl] = field(default_factory=frozenset)

    def link(self, name: str) -> Link | None:
        """Return the link called ``name``."""
        return next((link for link in self.links if link.name == name), None)
