"""What every test shares, and the rule for tests that need more than Python.

A marker that names a capability is probed once. Where the machine lacks it the test is
skipped with that reason, unless ``LABNET_REQUIRE`` (a comma-separated list, set in CI)
names the capability: then the run fails at once instead of passing with less.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

import pytest

_SBIN = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _runs(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _netns() -> bool:
    return _runs("unshare", "-n", "true") or _runs("unshare", "-Urn", "true")


CAPABILITIES: dict[str, Callable[[], bool]] = {
    "netns": _netns,
    "userns": lambda: _runs("unshare", "-Ur", "true"),
    "etcd": lambda: shutil.which("etcd") is not None,
    "iptables": lambda: shutil.which("iptables-restore", path=_SBIN) is not None,
    "kubectl": lambda: True,  # a dependency of the package: its absence is an error
    "e2e": _netns,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine cannot run, unless LABNET_REQUIRE insists."""
    required = set(os.environ.get("LABNET_REQUIRE", "").split(",")) - {""}
    if unknown := required - CAPABILITIES.keys():
        raise pytest.UsageError(f"LABNET_REQUIRE names no capability: {sorted(unknown)}")
    wanted = {m.name for item in items for m in item.iter_markers()}
    missing = {n for n in (wanted & CAPABILITIES.keys()) | required if not CAPABILITIES[n]()}
    if broken := missing & required:
        raise pytest.UsageError(f"LABNET_REQUIRE names {sorted(broken)}, absent on this machine")
    for item in items:
        for name in sorted(missing & {m.name for m in item.iter_markers()}):
            item.add_marker(pytest.mark.skip(reason=f"this machine has no {name}"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Golden files are rewritten on demand, then reviewed as a diff."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether this run rewrites golden files instead of comparing with them."""
    return bool(request.config.getoption("--update-golden"))
