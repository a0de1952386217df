"""The connection tracker of the network namespace the caller is in."""

from __future__ import annotations

from collections.abc import Iterable

from labnet.kernel.netfilter_netlink import NetfilterSocket
from labnet.plan.conntrack import Connection


class LinuxConntrack:
    """A ``ConntrackKernel``. Nothing is opened before the first call; close it at the end."""

    def __init__(self) -> None:
        self._opened: NetfilterSocket | None = None

    def __enter__(self) -> LinuxConntrack:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the netlink socket."""
        if self._opened:
            self._opened.close()
            self._opened = None

    def connections(self, protocol: int) -> tuple[Connection, ...]:
        """Return what the connection tracker holds for an IP protocol number."""
        return self._netlink.connections(protocol)

    def forget(self, connections: Iterable[Connection]) -> None:
        """Delete entries of the connection tracker."""
        self._netlink.forget(connections)

    @property
    def _netlink(self) -> NetfilterSocket:
        if self._opened is None:
            self._opened = NetfilterSocket()
        return self._opened
