"""The interface between plans and the machine they are carried out on."""

from __future__ import annotations

from typing import Protocol


class Kernel(Protocol):
    """One node's network stack: report what is there, carry out operations."""
