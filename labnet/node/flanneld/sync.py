"""flanneld: keep this node's way to the other nodes' pods in step with the leases.

Three duties: hold a subnet lease for this node, tell the CNI plugin about it in
``subnet.env``, and make the kernel match the leases of all nodes through a backend
(vxlan or host-gw) and two netfilter chains. :meth:`Flanneld.sync` looks at everything
each time and closes the gap; events only wake it. Kill the process at any point: pods
and routes stay, and the next start finds its lease by the node's address.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from labnet.backend import host_gw, masquerade, vxlan
from labnet.backend.outside import Outside
from labnet.clock import Clock
from labnet.errors import LabnetError, NotFound, Unsupported
from labnet.plan.diff import diff
from labnet.plan.explain import shell
from labnet.plan.kernel import Kernel
from labnet.plan.netfilter import NetfilterKernel, Wanted
from labnet.plan.netfilter_diff import diff as netfilter_diff
from labnet.plan.ops import Plan
from labnet.plan.state import NodeState, Scope
from labnet.subnet import file
from labnet.subnet.config import NetConf
from labnet.subnet.file import SubnetEnv
from labnet.subnet.lease import Lease
from labnet.subnet.manager import TTL, Claim, Held, Manager

RENEW_EVERY = TTL / 24  # seconds: 24 chances before the lease runs out
log = logging.getLogger("flanneld")


@dataclass(frozen=True, slots=True)
class Settings:
    """What this node's flanneld was told."""

    node: str
    public_ip: IPv4Address
    interface: str = "eth0"
    pinned: IPv4Network | None = None
    reserved: tuple[IPv4Network, ...] = ()
    subnet_file: Path = file.PATH


@dataclass(frozen=True, slots=True)
class Goal:
    """Everything one pass wants: what the kernel should hold, and the file's content."""

    scope: Scope
    state: NodeState
    netfilter: Wanted
    env: SubnetEnv


def outside(kernel: Kernel, settings: Settings) -> Outside:
    """Return what the kernel says of the interface that reaches other nodes.

    Raises ``NotFound`` where it is missing or has not the address that this node tells
    the others: leases with a wrong address send their packets nowhere.
    """
    seen = kernel.observe(Scope(links=frozenset({settings.interface})))
    link = seen.link(settings.interface)
    if link is None:
        raise NotFound(f"{settings.node} has no interface {settings.interface}")
    for address in seen.addresses:
        if address.interface.ip == settings.public_ip:
            return Outside(link.name, address.interface, link.mtu)
    there = ", ".join(sorted(str(a.interface) for a in seen.addresses)) or "none"
    raise NotFound(
        f"{settings.node}: {settings.interface} has not the public address"
        f" {settings.public_ip} (it has: {there})",
        hint="the node's address in the scenario and its eth0 must agree",
    )


def claim(settings: Settings, conf: NetConf, previous: IPv4Network | None) -> Claim:
    """Return what this node asks of the subnet manager."""
    plain = Claim(
        settings.public_ip,
        conf.backend_type,
        pinned=settings.pinned,
        previous=previous,
        reserved=settings.reserved,
    )
    if conf.backend_type == host_gw.TYPE:
        return plain
    if conf.backend_type == vxlan.TYPE:
        vni = vxlan.parse(conf.backend).vni
        return replace(plain, vni=vni, vtep_mac=vxlan.vtep_mac(settings.public_ip, vni))
    raise Unsupported(
        f"flannel backend {conf.backend_type!r} is not there",
        hint=f"use {vxlan.TYPE} or {host_gw.TYPE} as the scenario's backend",
    )


def goal(own: Lease, leases: Iterable[Lease], eth0: Outside, conf: NetConf) -> Goal:
    """Return what the node holding ``own`` should look like. Pure."""
    if conf.backend_type == vxlan.TYPE:
        options = vxlan.parse(conf.backend)
        scope, mtu = vxlan.scope(eth0, options), vxlan.mtu(eth0, options)
        state = vxlan.desired(own, leases, eth0, options)
    else:
        scope, mtu = host_gw.scope(eth0), host_gw.mtu(eth0, conf.backend)
        state = host_gw.desired(own, leases, eth0)
    return Goal(
        scope=scope,
        state=state,
        netfilter=masquerade.wanted(conf.network, own.subnet),
        env=SubnetEnv(conf.network, own.subnet, mtu),
    )


class Flanneld:
    """One node's flanneld. ``start`` once, then ``sync`` as often as anybody likes."""

    def __init__(
        self,
        settings: Settings,
        manager: Manager,
        kernel: Kernel,
        netfilter: NetfilterKernel,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._manager = manager
        self._kernel = kernel
        self._netfilter = netfilter
        self._clock = clock
        self._conf: NetConf | None = None
        self._held: Held | None = None
        self._renewed = 0.0

    def start(self) -> Lease:
        """Take this node's subnet and return the lease. Raises what ``acquire`` raises."""
        conf = self._conf = self._manager.network_config()
        before = file.read(self._settings.subnet_file)
        previous = before.subnet if before else None
        self._held = self._manager.acquire(claim(self._settings, conf, previous))
        self._renewed = self._clock.monotonic()
        lease = self._held.lease
        log.info("subnet %s is leased to %s", lease.subnet, lease.public_ip)
        if previous and previous != lease.subnet:
            log.warning("this node had %s before: its pods must be made anew", previous)
        return lease

    def sync(self, leases: Iterable[Lease]) -> Plan:
        """Make the node match ``leases`` once; return what had to be done.

        The tunnel comes before subnet.env, which lets pods start, and that before
        netfilter. Raises ``OpFailed`` for the first refusal, after all was tried.
        """
        held, conf = self._holding(leases)
        wanted = goal(held.lease, leases, outside(self._kernel, self._settings), conf)
        plan = diff(wanted.state, self._kernel.observe(wanted.scope))
        for op in plan:
            log.info("%s  # %s", shell(op), op.reason)
        failure: LabnetError | None = None
        try:
            self._kernel.apply_all(plan)
        except LabnetError as e:
            failure = e
        if file.write(self._settings.subnet_file, wanted.env):
            env = wanted.env
            log.info("wrote %s: %s, MTU %d", self._settings.subnet_file, env.subnet, env.mtu)
        self._sync_netfilter(wanted.netfilter)
        if failure:
            raise failure
        return plan

    def renew(self) -> None:
        """Keep the lease alive, once an hour; take the same subnet again if it is lost."""
        held = self._held
        if held is None or self._clock.monotonic() - self._renewed < RENEW_EVERY:
            return
        if self._manager.renew(held):
            self._renewed = self._clock.monotonic()
        else:
            log.warning("the lease of %s ran out; asking for it again", held.lease.subnet)
            self.start()

    def _holding(self, leases: Iterable[Lease]) -> tuple[Held, NetConf]:
        """Return the lease in hand; take it again first if somebody deleted it."""
        if self._held is None or self._held.lease not in leases:
            self.start()
        if self._held is None or self._conf is None:
            raise NotFound("no subnet lease")  # start() raises before this
        return self._held, self._conf

    def _sync_netfilter(self, wanted: Wanted) -> None:
        transactions = netfilter_diff(wanted, self._netfilter.observe_netfilter())
        if transactions:
            log.info("netfilter: %d transactions", len(transactions))
            self._netfilter.apply_netfilter(transactions)
