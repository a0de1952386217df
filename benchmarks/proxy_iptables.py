"""How long kube-proxy's iptables mode takes, beside bare iptables-restore.

    .venv/bin/python -m benchmarks.proxy_iptables [services…]

For each number of services, two endpoints each, in a fresh network namespace (a user
namespace as well when not root): the first full sync, one endpoint changed, a sync with
nothing to do, and the first pass of a restarted kube-proxy that finds everything in
place. "bare" is iptables-restore alone, fed with the same rules from memory: for the
first sync everything (one transaction per table where the socket takes it, else the same
transactions), for the change the same few lines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from labnet.kernel.netfilter import LinuxNetfilter
from labnet.node.kube_proxy.iptables import IptablesMode
from labnet.node.kube_proxy.mode import Settings
from labnet.node.kube_proxy.syncer import Syncer
from labnet.plan.netfilter import NetfilterState, Transaction
from labnet.plan.netfilter_diff import BUDGET, diff
from labnet.proxy.iptables.planner import Style, rules_for
from labnet.proxy.iptables.rules import RuleConfig
from labnet.proxy.services import portals

SETTINGS = Settings("node1", IPv4Address("192.168.50.11"), IPv4Network("10.244.0.0/16"))
RULES = RuleConfig(SETTINGS.pod_cidr, SETTINGS.address)
COLUMNS = ("services", "style", "bare first", "first", "bare change", "change", "idle", "restart")


Json = dict[str, Any]


def service(n: int) -> Json:
    address = IPv4Address("10.96.0.0") + n + 1
    return {
        "metadata": {"namespace": "bench", "name": f"service-{n:05}", "resourceVersion": "1"},
        "spec": {"clusterIP": str(address), "ports": [{"port": 80, "protocol": "TCP"}]},
    }


def endpoint_slice(n: int, version: int = 1) -> Json:
    base = IPv4Address("10.244.0.0") + 2 * n + 1
    addresses = (base, base + (1 if version == 1 else 20_000))
    return {
        "metadata": {
            "namespace": "bench",
            "name": f"service-{n:05}-x",
            "resourceVersion": str(version),
            "labels": {"kubernetes.io/service-name": f"service-{n:05}"},
        },
        "addressType": "IPv4",
        "ports": [{"port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": [str(a)], "conditions": {"ready": True}, "nodeName": "node1"}
            for a in addresses
        ],
    }


def restore(transactions: Sequence[Transaction]) -> float | None:
    text = "".join(t.text() for t in transactions)
    start = time.perf_counter()
    done = subprocess.run(
        ["iptables-nft-restore", "--noflush"], input=text, text=True, capture_output=True
    )
    return time.perf_counter() - start if done.returncode == 0 else None


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def cluster(count: int) -> tuple[list[Json], list[Json], list[Json]]:
    """Return services, their slices, and the slices with one endpoint changed."""
    slices = [endpoint_slice(n) for n in range(count)]
    changed = list(slices)
    changed[count // 2] = endpoint_slice(count // 2, 2)
    return [service(n) for n in range(count)], slices, changed


def bare(count: int, style: Style) -> list[float]:
    """iptables-restore alone: everything, then one change."""
    services, slices, changed = cluster(count)
    before, after = (
        rules_for(style, portals(services, s, "node1"), RULES) for s in (slices, changed)
    )
    first = restore(diff(before, NetfilterState(), budget=10**12))
    if first is None:
        first = restore(diff(before, NetfilterState(), BUDGET))
    with LinuxNetfilter() as kernel:
        change = restore(diff(after, kernel.observe_netfilter()))
    return [first or 0.0, change or 0.0]


def labnet(count: int, style: Style) -> list[float]:
    """The same by kube-proxy's pass, and what only it does."""
    services, slices, changed = cluster(count)
    with LinuxNetfilter() as kernel:
        syncer = Syncer(SETTINGS, IptablesMode(RULES, kernel, style), kernel, lambda *_: None)
        first = timed(lambda: syncer.sync(services, slices))
        change = timed(lambda: syncer.sync(services, changed))
        idle = timed(lambda: syncer.sync(services, changed))
    with LinuxNetfilter() as kernel:
        restarted = Syncer(SETTINGS, IptablesMode(RULES, kernel, style), kernel, lambda *_: None)
        restart = timed(lambda: restarted.sync(services, changed))
        assert restarted.sync(services, changed).written == ()
    return [first, change, idle, restart]


def in_fresh_namespace(what: str, count: int, style: str) -> list[float]:
    flags = "-n" if os.geteuid() == 0 else "-Urn"
    argv = ["unshare", flags, sys.executable, "-m", __spec__.name, what, str(count), style]
    env = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=True)
    found: list[float] = json.loads(done.stdout)
    return found


def main(counts: Sequence[int] = (100, 1000, 2000, 5000)) -> None:
    print(" ".join(f"{c:>11}" for c in COLUMNS))
    for style in ("v1.2", "current"):
        for count in counts:
            bare_first, bare_change = in_fresh_namespace("bare", count, style)
            first, change, idle, restart = in_fresh_namespace("labnet", count, style)
            times = (bare_first, first, bare_change, change, idle, restart)
            cells = [str(count), style, *(f"{t * 1000:.0f} ms" for t in times)]
            print(" ".join(f"{c:>11}" for c in cells), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["bare", count, style]:
            print(json.dumps(bare(int(count), style)))  # type: ignore[arg-type]
        case ["labnet", count, style]:
            print(json.dumps(labnet(int(count), style)))  # type: ignore[arg-type]
        case []:
            main()
        case counts:
            main([int(c) for c in counts])
