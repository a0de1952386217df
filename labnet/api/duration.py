"""How long ago: ages as kubectl prints them, precise when short, rough when long."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from labnet.clock import parse_rfc3339

UNKNOWN = "<unknown>"


def human(seconds: float) -> str:
    """Return ``95s``, ``3m20s``, ``45m``, ``5h12m``, ``3d4h``, ``20d``, ``2y30d``.

    Two units while the larger one counts less than ten or so, as
    ``k8s.io/apimachinery/pkg/util/duration`` has it.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    return _days(hours)


def _days(hours: int) -> str:
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def since(timestamp: Any, now: datetime) -> str:
    """Return how long before ``now`` an object's timestamp is; ``<unknown>`` without one."""
    if not timestamp:
        return UNKNOWN
    try:
        moment = parse_rfc3339(timestamp)
        return human((now - moment).total_seconds())
    except (ValueError, TypeError, AttributeError):
        return UNKNOWN
