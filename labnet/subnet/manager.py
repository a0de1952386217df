"""Who has which subnet: flannel's subnet manager over etcd.

A node takes a subnet by creating its key in a transaction that fails if the key exists,
so two nodes can never hold the same one. The key hangs on an etcd lease of 24 hours: a
node that is gone for a day loses its subnet, one that restarts finds it again, by its
public IP or by what ``subnet.env`` remembers. The same subnet matters: the node's pods
have addresses out of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from labnet.errors import Conflict, ScenarioError, Unavailable
from labnet.ipam.subnets import first_free
from labnet.store.model import Delete, KeyValue, ModRevisionIs, Page, Put, Store
from labnet.subnet import config as net_conf
from labnet.subnet import lease as leases
from labnet.subnet.config import CONFIG_KEY, SUBNETS, NetConf
from labnet.subnet.lease import Lease

TTL = 24 * 60 * 60  # seconds
ATTEMPTS = 10  # how often a lost race is run again


@dataclass(frozen=True, slots=True)
class Claim:
    """What a node tells the others, and which subnet it would like."""

    public_ip: IPv4Address
    backend_type: str
    vni: int = 0
    vtep_mac: str = ""
    pinned: IPv4Network | None = None  # this one or none
    previous: IPv4Network | None = None  # this one if it is free
    reserved: tuple[IPv4Network, ...] = ()  # pinned to other nodes

    def on(self, subnet: IPv4Network) -> Lease:
        """Return the lease that this claim makes on ``subnet``."""
        return Lease(subnet, self.public_ip, self.backend_type, self.vni, self.vtep_mac)


@dataclass(frozen=True, slots=True)
class Held:
    """A lease and the id of the etcd lease that keeps it alive."""

    lease: Lease
    id: int


class Manager:
    """The subnet leases of one lab."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def publish(self, text: str) -> None:
        """Store the network configuration unless there is one already."""
        self._store.txn([ModRevisionIs(CONFIG_KEY, 0)], [Put(CONFIG_KEY, text.encode())])

    def network_config(self) -> NetConf:
        """Return the network configuration. Raises ``Unavailable``, ``ScenarioError``."""
        found = self._store.get(CONFIG_KEY)
        if found is None:
            raise Unavailable(f"etcd has no {CONFIG_KEY} yet")
        return net_conf.parse(found.value)

    def leases(self) -> tuple[tuple[Lease, ...], int]:
        """Return all leases and the revision they were read at."""
        page = self._store.range(SUBNETS)
        return parsed(page.items), page.revision

    def acquire(self, claim: Claim) -> Held:
        """Take a subnet and return it.

        A pinned claim gets its subnet or none. Otherwise, in order: the one this public
        IP holds already, the previous one, the first free one. Raises ``Conflict``
        where the pinned one is somebody else's, ``Exhausted``, ``ScenarioError``,
        ``Unavailable``.
        """
        conf = self.network_config()
        for _ in range(ATTEMPTS):
            page = self._store.range(SUBNETS)
            held = self._attempt(conf, claim, page)
            if held:
                return held
        raise Conflict(f"lost the race for a subnet {ATTEMPTS} times; other nodes start too")

    def renew(self, held: Held) -> bool:
        """Keep the lease alive for another day; False if it is gone."""
        return self._store.keep_alive(held.id) > 0

    def _attempt(self, conf: NetConf, claim: Claim, page: Page) -> Held | None:
        all_leases = parsed(page.items)
        subnet = choose(conf, claim, all_leases)
        key = leases.key(subnet)
        stale = [x for x in all_leases if x.public_ip == claim.public_ip and x.subnet != subnet]
        if stale:
            self._forget(stale)
        revision = next((kv.mod_revision for kv in page.items if kv.key == key), 0)
        return self._put(claim.on(subnet), revision)

    def _put(self, lease: Lease, revision: int) -> Held | None:
        """Write the key if it is still at ``revision`` (0: not there)."""
        key = leases.key(lease.subnet)
        lease_id = self._store.grant(TTL)
        done = self._store.txn(
            [ModRevisionIs(key, revision)], [Put(key, leases.value(lease), lease_id)]
        )
        if done.succeeded:
            return Held(lease, lease_id)
        self._store.revoke(lease_id)
        return None

    def _forget(self, stale: Iterable[Lease]) -> None:
        self._store.txn([], [Delete(leases.key(lease.subnet)) for lease in stale])


def parsed(items: Iterable[KeyValue]) -> tuple[Lease, ...]:
    """Return the leases among ``items``; keys that are something else are skipped."""
    found = (leases.parse(kv.key, kv.value) for kv in items)
    return tuple(lease for lease in found if lease)


def choose(conf: NetConf, claim: Claim, there: Collection[Lease]) -> IPv4Network:
    """Return the subnet that ``claim`` should get, given the leases that are there.

    Pure. Raises ``Conflict``, ``Exhausted``, ``ScenarioError``.
    """
    others = [lease for lease in there if lease.public_ip != claim.public_ip]
    if claim.pinned:
        return _pinned(conf, claim.pinned, others)
    own = next((x.subnet for x in there if x.public_ip == claim.public_ip), None)
    taken = [*(lease.subnet for lease in others), *claim.reserved]
    for wish in (own, claim.previous):
        if wish and conf.allows(wish) and not any(wish.overlaps(used) for used in taken):
            return wish
    return first_free(conf.subnet_min, conf.subnet_max, conf.subnet_len, taken)


def _pinned(conf: NetConf, subnet: IPv4Network, others: Iterable[Lease]) -> IPv4Network:
    if subnet.prefixlen != conf.subnet_len or not subnet.subnet_of(conf.network):
        raise ScenarioError(
            f"subnet {subnet} is not one of {conf.network} cut into /{conf.subnet_len}",
            hint="correct the node's subnet, podCIDR or subnetLen in the scenario",
        )
    for lease in others:
        if lease.subnet.overlaps(subnet):
            raise Conflict(
                f"subnet {subnet} is leased to {lease.public_ip}",
                hint=f"delete {leases.key(lease.subnet)} in etcd if that node is gone",
            )
    return subnet
