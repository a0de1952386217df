"""Whose turn is it? Round robin over a service's endpoints, with memory for clients.

The endpoints stand in a circle, in order of their addresses. Each connection gets the one
behind the one chosen last, and whoever comes or goes does not disturb the others' turn.
When an endpoint does not answer, the same connection is offered the one behind it.

With session affinity (``ClientIP``) a client address keeps its endpoint as long as it
comes back within the timeout, counted from its last connection; an endpoint that leaves
or does not answer is forgotten at once. Pure: the caller says what time it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address

from labnet.proxy.model import Endpoint

_SWEEP = 1024  # remembered clients from which on expired ones are looked for


@dataclass(slots=True)
class _Session:
    """The endpoint a client had, and when it came last (seconds)."""

    endpoint: Endpoint
    seen: float


class Balancer:
    """The choice for one service port."""

    def __init__(self, endpoints: Iterable[Endpoint] = (), affinity_seconds: int = 0) -> None:
        self._last: Endpoint | None = None
        self._sessions: dict[IPv4Address, _Session] = {}
        self._sweep_at = _SWEEP
        self.update(endpoints, affinity_seconds)

    def update(self, endpoints: Iterable[Endpoint], affinity_seconds: int) -> None:
        """Choose among ``endpoints`` from now on; ``affinity_seconds`` 0 is no affinity."""
        self._circle = tuple(sorted(set(endpoints)))
        self._affinity = affinity_seconds
        self._sessions = {
            client: session
            for client, session in self._sessions.items()
            if affinity_seconds and session.endpoint in self._circle
        }

    def serves(self, endpoint: Endpoint) -> bool:
        """Return whether ``endpoint`` is one of the circle now."""
        return endpoint in self._circle

    def choose(
        self, client: IPv4Address, now: float, failed: Endpoint | None = None
    ) -> Endpoint | None:
        """Return the endpoint for a connection of ``client``, None if there is none.

        ``failed`` is the one that this connection was given and that did not answer;
        ``now`` is a monotonic time in seconds.
        """
        if not self._circle:
            return None
        session = self._sessions.get(client)
        if failed is None and session and now - session.seen < self._affinity:
            session.seen = now
            return session.endpoint
        chosen = self._behind(failed or self._last)
        self._last = chosen
        if self._affinity:
            self._remember(client, chosen, now)
        return chosen

    def _behind(self, endpoint: Endpoint | None) -> Endpoint:
        if endpoint is None:
            return self._circle[0]
        return self._circle[bisect_right(self._circle, endpoint) % len(self._circle)]

    def _remember(self, client: IPv4Address, endpoint: Endpoint, now: float) -> None:
        self._sessions[client] = _Session(endpoint, now)
        if len(self._sessions) > self._sweep_at:
            self._sessions = {
                c: s for c, s in self._sessions.items() if now - s.seen < self._affinity
            }
            self._sweep_at = max(_SWEEP, 2 * len(self._sessions))
