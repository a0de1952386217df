"""Tests here may ask for ``own_netns``: see :mod:`tests.own_netns`."""

from __future__ import annotations

from tests.own_netns import own_netns, pytest_runtest_protocol

__all__ = ["own_netns", "pytest_runtest_protocol"]
