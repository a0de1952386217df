"""A pod's network: what attaching and detaching costs, beside `ip -batch`.

Each row attaches pods that have a network namespace already: address from host-local,
veth pair into the pod, bridge port with hairpin, loopback, address, default route. The
floor does the same with iproute2: one `ip -batch` on the node for a pod's cable and one
in the pod, without any book-keeping. `attach alone` is labnet's kernel part.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from labnet.cni import bridge
from labnet.kernel.linux import LinuxKernel
from labnet.kernel.netns import own_netns
from labnet.linux.namespaces import NEWNET, NEWNS, NEWUSER, setns, unshare
from labnet.node.network import BridgeNetwork
from labnet.plan.diff import diff
from labnet.plan.ops import Attach
from labnet.subnet import file
from labnet.subnet.file import SubnetEnv

ENV = SubnetEnv(IPv4Network("10.244.0.0/16"), IPv4Network("10.244.0.0/20"), 1450)
SIZES = (100, 1000)
BUDGET = 3.0  # ms a pod at 100


def main() -> None:
    print(f"{'pods':>6} {'what':<28} {'ms/pod':>8} {'p50':>7} {'max':>7}")
    for size in SIZES:
        for what in (floor, attach_alone, add, delete):
            _forked(lambda: what(size))  # noqa: B023
    print(f"budget: add at most {BUDGET} ms a pod at 100; namespaces are made before")


def add(size: int) -> None:
    network, pods = _network(), _namespaces(size)
    _report(size, "labnet add", lambda n: network.add(f"pod{n}/0", pods[n]))


def delete(size: int) -> None:
    network, pods = _network(), _namespaces(size)
    for n, fd in enumerate(pods):
        network.add(f"pod{n}/0", fd)
    _report(size, "labnet delete", lambda n: network.delete(f"pod{n}/0"))


def attach_alone(size: int) -> None:
    kernel, pods = LinuxKernel("bench"), _namespaces(size)
    kernel.apply_all(diff(bridge.desired(ENV.subnet, ENV.mtu), kernel.observe(bridge.SCOPE)))

    def one(n: int) -> None:
        cable = bridge.cable(f"pod{n}/0", ENV.subnet.network_address + 2 + n, ENV.subnet, ENV.mtu)
        kernel.attach(Attach(cable, "benchmark"), pods[n])

    _report(size, "labnet attach alone", one)


def floor(size: int) -> None:
    kernel, pods = LinuxKernel("bench"), _namespaces(size)
    kernel.apply_all(diff(bridge.desired(ENV.subnet, ENV.mtu), kernel.observe(bridge.SCOPE)))
    _named(pods)

    def one(n: int) -> None:
        pod = f"pod{n}"
        address: IPv4Address = ENV.subnet.network_address + 2 + n
        _batch(
            [],
            f"link add veth{n} mtu 1450 type veth peer name eth0 mtu 1450 netns {pod}",
            f"link set veth{n} addrgenmode none",
            f"link set veth{n} master cni0 up",
            f"link set veth{n} type bridge_slave hairpin on",
        )
        _batch(
            ["-n", pod],
            "link set lo up",
            "link set eth0 addrgenmode none",
            "link set eth0 up",
            f"addr add {address}/20 brd + dev eth0",
            "route add default via 10.244.0.1",
        )

    _report(size, "floor: two ip -batch", one)


def _batch(options: list[str], *lines: str) -> None:
    subprocess.run(["ip", *options, "-batch", "-"], input="\n".join(lines), text=True, check=True)


def _report(size: int, what: str, one: Callable[[int], object]) -> None:
    each = []
    for n in range(size):
        start = time.perf_counter()
        one(n)
        each.append((time.perf_counter() - start) * 1e3)
    mean, p50 = sum(each) / size, sorted(each)[size // 2]
    print(f"{size:>6} {what:<28} {mean:>8.2f} {p50:>7.2f} {max(each):>7.1f}", flush=True)


def _network() -> BridgeNetwork:
    where = Path(tempfile.mkdtemp(dir="/tmp"))  # a tmpfs of this process's own
    file.write(where / "subnet.env", ENV)
    return BridgeNetwork(LinuxKernel("bench"), where / "subnet.env", where / "cni")


def _namespaces(size: int) -> list[int]:
    home, made = own_netns(), []
    for _ in range(size):
        unshare(NEWNET)
        made.append(own_netns())
    setns(home, NEWNET)
    return made


def _named(pods: list[int]) -> None:
    """Give the namespaces names that ``ip`` finds, in a /run of this process's own."""
    _mount(b"tmpfs", b"/run", b"tmpfs")
    Path("/run/netns").mkdir()
    for n, fd in enumerate(pods):
        path = Path(f"/run/netns/pod{n}")
        path.touch()
        _mount(f"/proc/self/fd/{fd}".encode(), bytes(path), None, 1 << 12)  # MS_BIND


def _forked(body: Callable[[], None]) -> None:
    """Run ``body`` in its own user (if needed), mount and network namespaces."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _enter()
            body()
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("a measurement failed")


def _enter() -> None:
    uid, gid = os.geteuid(), os.getegid()
    if uid:
        unshare(NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    unshare(NEWNET | NEWNS)
    _mount(b"none", b"/", None, 1 << 18 | 1 << 14)  # MS_PRIVATE | MS_REC
    _mount(b"tmpfs", b"/tmp", b"tmpfs")


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int = 0) -> None:
    if ctypes.CDLL(None, use_errno=True).mount(source, target, kind, flags, None):
        raise OSError(ctypes.get_errno(), f"mount {target.decode()}")
