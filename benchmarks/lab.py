"""A whole lab: time to start and stop it, what it costs while idle, 100 more pods.

``up`` is timed as a person would, from the command to its end, which is when every pod
is Ready and the Service answers. Beside it stands a bare etcd, from exec to its first
answer with the same flags: the one part of a lab that is not ours to make faster. Memory
is the proportional set size (PSS) of PID 1 and all its descendants; shared pages of the
forked components count once.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LABNET = [sys.executable, "-m", "labnet.cli.main"]
NAME = f"bench-{os.getpid()}"
RUNS = 7
IDLE_SECONDS = 20
PODS = 100


def main() -> None:
    etcd = [_etcd_ready() for _ in range(RUNS)]
    ups, downs = [], []
    for _ in range(RUNS):
        ups.append(_timed("up", str(ROOT / "scenarios/my-nginx.yaml"), "--name", NAME))
        downs.append(_timed("down", NAME))
    _row("bare etcd, exec to first answer", etcd)
    _row("labnet up scenarios/my-nginx.yaml", ups, ratio_to=etcd)
    _row("labnet down", downs)
    with _lab():
        _idle()
        _scale()


def _row(what: str, seconds: list[float], ratio_to: list[float] | None = None) -> None:
    low, mid, high = min(seconds), statistics.median(seconds), max(seconds)
    ratio = f"  {mid / statistics.median(ratio_to):5.1f} × etcd" if ratio_to else ""
    print(f"{what:<42} min {low:6.2f}  median {mid:6.2f}  max {high:6.2f} s{ratio}")


def _timed(*argv: str) -> float:
    start = time.monotonic()
    subprocess.run([*LABNET, *argv], check=True, capture_output=True)
    return time.monotonic() - start


def _etcd_ready() -> float:
    with tempfile.TemporaryDirectory() as directory:
        start = time.monotonic()
        command = ["etcd", "--data-dir", directory, "--unsafe-no-fsync"]
        command += ["--heartbeat-interval=10", "--election-timeout=50", "--log-level=error"]
        urls = {"client": "http://127.0.0.1:23790", "peer": "http://127.0.0.1:23800"}
        command += [f"--listen-{kind}-urls={url}" for kind, url in urls.items()]
        command += [f"--advertise-client-urls={urls['client']}"]
        command += [f"--initial-advertise-peer-urls={urls['peer']}"]
        command += [f"--initial-cluster=default={urls['peer']}"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                while not _answers(urls["client"]):
                    time.sleep(0.005)
                return time.monotonic() - start
            finally:
                process.kill()


def _answers(url: str) -> bool:
    import urllib.request

    try:
        with urllib.request.urlopen(f"{url}/health", timeout=1) as answer:
            return b"true" in answer.read()
    except OSError:
        return False


@contextlib.contextmanager
def _lab() -> Iterator[None]:
    command = [*LABNET, "up", str(ROOT / "scenarios/my-nginx.yaml"), "--name", NAME]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([*LABNET, "down", NAME], check=False, capture_output=True)


def _descendants() -> list[int]:
    listed = json.loads(_labnet("ls", "-o", "json"))
    labs = listed["labs"] if isinstance(listed, dict) else listed
    first = next(lab["pid"] for lab in labs if lab["name"] == NAME)
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = re.search(r"PPid:\s+(\d+)", (entry / "status").read_text())
                if parent:
                    children.setdefault(int(parent[1]), []).append(int(entry.name))
    found, queue = [], [first]
    while queue:
        found.append(pid := queue.pop())
        queue += children.get(pid, [])
    return found


def _labnet(*argv: str) -> str:
    return subprocess.run([*LABNET, *argv], check=True, capture_output=True, text=True).stdout


def _idle() -> None:
    pids = _descendants()
    rows = []
    before = {pid: _cpu(pid) for pid in pids}
    time.sleep(IDLE_SECONDS)
    for pid in pids:
        with contextlib.suppress(OSError):
            rows.append((_pss(pid), _cpu(pid) - before[pid], _title(pid)))
    memory = sum(row[0] for row in rows)
    cpu = 100 * sum(row[1] for row in rows) / IDLE_SECONDS
    print(
        f"{'idle lab of three nodes':<42} {memory:6.1f} MB PSS, {cpu:.1f} % of one core,", end=" "
    )
    print(f"{len(rows)} processes")
    for size, used, title in sorted(rows, reverse=True)[:12]:
        print(f"    {title:<38} {size:6.1f} MB  {100 * used / IDLE_SECONDS:5.2f} %")


def _pss(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.M)
    return int(found[1]) / 1024 if found else 0.0


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _title(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    return f"{name} ({words[0][-20:]})"


def _scale() -> None:
    start = time.monotonic()
    replicas = f"--replicas={PODS + 2}"
    _labnet("--lab", NAME, "kubectl", "--", "scale", "deployment/my-nginx", replicas)
    while _ready() < PODS + 2:
        time.sleep(0.1)
        if time.monotonic() - start > 120:
            sys.exit(f"only {_ready()} of {PODS + 2} pods became Ready within 120 s")
    print(f"{PODS} more pods Ready after {time.monotonic() - start:25.2f} s")


def _ready() -> int:
    path = "jsonpath={.status.readyReplicas}"
    argv = ["--lab", NAME, "kubectl", "--", "get", "deployment", "my-nginx", "-o", path]
    return int(_labnet(*argv) or 0)
