"""host-local: a pod's address, out of the node's subnet, remembered in files.

The CNI plugin of that name asks nobody: each node owns a subnet, so it alone decides.
Its memory is a directory with one file per address, named by the address and holding
the container id and interface; making the file with O_EXCL *is* the reservation, and
``last_reserved_ip.0`` says where to go on. Format and place are those of the real
plugin (containernetworking/plugins ``plugins/ipam/host-local/backend/disk``), so
``ls /var/lib/cni/networks/cbr0`` teaches the same here as on a real node.

One thing is labnet's own: *reserved* addresses are given only to a pod that asks for
one by name, which is how a scenario's pinned addresses stay free for their owners.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path

from labnet.errors import AlreadyExists, Exhausted, LabnetError
from labnet.ipam.addresses import Range, next_free

LAST_RESERVED = "last_reserved_ip.0"  # 0: the first (here the only) range
LINE_BREAK = "\r\n"


class AddressStore:
    """The directory of one network, ``<state>/networks/<network>``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._held: dict[IPv4Address, str] = {}  # as read so far: files never change
        self._names: dict[str, IPv4Address | None] = {}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process and thread out meanwhile."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def held(self) -> Mapping[IPv4Address, str]:
        """Return each reserved address with the id of the container that holds it.

        Only files that came since the last time are read.
        """
        there = set(os.listdir(self.directory)) if self.directory.is_dir() else set()  # noqa: PTH208
        for name in self._names.keys() - there:
            self._forget(name)
        for name in there - self._names.keys():
            self._read(name)
        return self._held

    def _read(self, name: str) -> None:
        try:
            address = IPv4Address(name)
        except AddressValueError:  # lock, last_reserved_ip.0
            self._names[name] = None
            return
        content = (self.directory / name).read_text()
        self._names[name] = address
        self._held[address] = content.split("\n", 1)[0].strip()

    def _forget(self, name: str) -> None:
        address = self._names.pop(name, None)
        if address:
            del self._held[address]

    def last(self) -> IPv4Address | None:
        """Return the address given out last, None before the first."""
        try:
            return IPv4Address((self.directory / LAST_RESERVED).read_text().strip())
        except (FileNotFoundError, AddressValueError):
            return None

    def reserve(self, address: IPv4Address, container: str, interface: str) -> bool:
        """Take ``address`` for ``container``; False if somebody has it."""
        try:
            with (self.directory / str(address)).open("x") as file:
                file.write(container + LINE_BREAK + interface)
        except FileExistsError:
            return False
        (self.directory / LAST_RESERVED).write_text(str(address))
        return True

    def release(self, address: IPv4Address) -> None:
        """Give ``address`` back; fine if nobody has it."""
        (self.directory / str(address)).unlink(missing_ok=True)
        self._forget(str(address))


def allocate(
    store: AddressStore,
    within: Range,
    container: str,
    interface: str,
    requested: IPv4Address | None = None,
    reserved: Collection[IPv4Address] = (),
) -> IPv4Address:
    """Reserve an address for ``container`` and return it.

    A container that holds one keeps it. ``requested`` may be any address of the subnet,
    also one below the range's start. Raises ``AlreadyExists`` where another container
    holds it, ``Exhausted``, ``LabnetError`` where it can be nobody's.
    """
    with store.locked():
        held = store.held()
        mine = next((ip for ip, owner in held.items() if owner == container), None)
        if mine and requested in (None, mine):
            return mine
        address = choose(within, held, store.last(), requested, reserved)
        if not store.reserve(address, container, interface):
            raise Exhausted(f"{address} was taken meanwhile by another program")
        if mine:
            store.release(mine)
        return address


def release(store: AddressStore, container: str) -> tuple[IPv4Address, ...]:
    """Free what ``container`` holds; return it."""
    with store.locked():
        mine = tuple(ip for ip, owner in store.held().items() if owner == container)
        for address in mine:
            store.release(address)
        return mine


def choose(
    within: Range,
    held: Mapping[IPv4Address, str],
    last: IPv4Address | None,
    requested: IPv4Address | None,
    reserved: Collection[IPv4Address],
) -> IPv4Address:
    """Decide which address comes next. Pure; errors as for :func:`allocate`."""
    if requested is None:
        return next_free(within, held, reserved, after=last)
    if requested in held:
        raise AlreadyExists(
            f"address {requested} is held by pod sandbox {held[requested]}",
            hint="the pod that holds it must go first",
        )
    ends = (within.subnet.network_address, within.subnet.broadcast_address)
    if requested not in within.subnet or requested in (within.gateway, *ends):
        raise LabnetError(
            f"{requested} is no pod address of this node's subnet {within.subnet}",
            hint="a pinned address must be in the subnet of the node its pod runs on",
        )
    return requested
