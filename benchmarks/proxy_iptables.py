"""How long kube-proxy's iptables mode takes, beside bare iptables-restore.

    .venv/bin/python benchmarks/proxy_iptables.py [services…]

For each number of services, two endpoints each, in a fresh network namespace (a user
namespace as well when not root): the first full sync, one endpoint changed, a sync with
nothing to do, and the first pass of a restarted kube-proxy that finds everything in
place. "bare" is iptables-restore alone, fed with the same rules from memory: for the
first sync everything (one transaction per table where the socket takes it, else the same
transactions), for the change the same few lines.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from ipaddress import IPv4Address, IPv4Network

from labnet.kernel.netfilter import LinuxNetfilter
from labnet.node.kube_proxy.program import program
from labnet.node.kube_proxy.syncer import Settings, Syncer
from labnet.plan.netfilter import NetfilterState, Transaction
from labnet.plan.netfilter_diff import BUDGET, diff
from labnet.proxy.iptables.planner import rules_for
from labnet.proxy.services import portals

INSIDE = "LABNET_BENCHMARK_INSIDE"
SETTINGS = Settings("node1", IPv4Address("192.168.50.11"), IPv4Network("10.244.0.0/16"))
COLUMNS = ("services", "style", "bare first", "first", "bare change", "change", "idle", "restart")


def service(n: int) -> dict[str, object]:
    address = IPv4Address("10.96.0.0") + n + 1
    return {
        "metadata": {"namespace": "bench", "name": f"service-{n:05}", "resourceVersion": "1"},
        "spec": {"clusterIP": str(address), "ports": [{"port": 80, "protocol": "TCP"}]},
    }


def endpoint_slice(n: int, version: int = 1) -> dict[str, object]:
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


def restore(transactions: list[Transaction] | tuple[Transaction, ...]) -> float | None:
    text = "".join(t.text() for t in transactions)
    start = time.perf_counter()
    done = subprocess.run(
        ["iptables-nft-restore", "--noflush"], input=text, text=True, capture_output=True
    )
    return time.perf_counter() - start if done.returncode == 0 else None


def timed(call: object) -> float:
    start = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - start


def flush() -> None:
    for table in ("nat", "filter"):
        subprocess.run(["iptables-nft", "-t", table, "-F"], check=True)
        subprocess.run(["iptables-nft", "-t", table, "-X"], check=True)


def measure(count: int, style: str) -> tuple[object, ...]:
    services = [service(n) for n in range(count)]
    slices = [endpoint_slice(n) for n in range(count)]
    everything = rules_for(style, portals(services, slices, "node1"), SETTINGS.rules)  # type: ignore[arg-type]
    bare_first = restore(diff(everything, NetfilterState(), budget=10**12))
    if bare_first is None:
        flush()
        bare_first = restore(diff(everything, NetfilterState(), BUDGET))
    changed = list(slices)
    changed[count // 2] = endpoint_slice(count // 2, 2)
    target = rules_for(style, portals(services, changed, "node1"), SETTINGS.rules)  # type: ignore[arg-type]
    kernel = LinuxNetfilter()
    bare_change = restore(diff(target, kernel.observe_netfilter()))
    flush()
    kernel.close()

    kernel = LinuxNetfilter()
    settings = Settings(SETTINGS.node, SETTINGS.address, SETTINGS.pod_cidr, style)  # type: ignore[arg-type]
    syncer = Syncer(settings, kernel, lambda *_: None)
    first = timed(lambda: syncer.sync(services, slices))
    change = timed(lambda: syncer.sync(services, changed))
    idle = timed(lambda: syncer.sync(services, changed))
    syncer.close()
    kernel.close()
    kernel = LinuxNetfilter()
    restarted = Syncer(settings, kernel, lambda *_: None)
    restart = timed(lambda: restarted.sync(services, changed))
    assert program(target, kernel).written == ()
    kernel.close()
    flush()
    return (count, style, bare_first, first, bare_change, change, idle, restart)


def main() -> None:
    if INSIDE not in os.environ:
        flags = "-n" if os.geteuid() == 0 else "-Urn"
        os.environ[INSIDE] = "1"
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        os.execvp("unshare", ["unshare", flags, sys.executable, *sys.argv])
    counts = [int(a) for a in sys.argv[1:]] or [100, 1000, 2000, 5000]
    print(" ".join(f"{c:>11}" for c in COLUMNS))
    for style in ("v1.2", "current"):
        for count in counts:
            row = measure(count, style)
            cells = [f"{c * 1000:.0f} ms" if isinstance(c, float) else str(c) for c in row]
            print(" ".join(f"{c:>11}" for c in cells), flush=True)


if __name__ == "__main__":
    main()
