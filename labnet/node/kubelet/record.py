"""What the kubelet remembers of a pod between two looks at it.

Only what the runtime's list and the API server cannot tell again: when to try something
once more, which containers were asked to stop and how long they may take, and what
status was sent last. A restarted kubelet starts without it and loses nothing but time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any

from labnet.node.kubelet.observed import Waiting


@dataclass(slots=True)
class Stopping:
    """A container that was asked to end."""

    kill_at: float  # seconds on the monotonic clock
    killed: bool = False


@dataclass(slots=True)
class Record:
    """One pod's memory, used by one worker at a time."""

    waiting: dict[str, Waiting] = field(default_factory=dict)
    sandbox_waiting: Waiting | None = None
    stopping: dict[str, Stopping] = field(default_factory=dict)
    addresses: dict[str, IPv4Address] = field(default_factory=dict)  # by sandbox id
    told: set[str] = field(default_factory=set)  # container ids whose back-off was an event
    sent: Mapping[str, Any] | None = None  # the last status the API server took
    sent_version: int = 0  # its resourceVersion
