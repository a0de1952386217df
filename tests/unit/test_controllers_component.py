"""The two processes: what they are told, and how they live."""

from __future__ import annotations

import signal
import subprocess
import sys
from ipaddress import IPv4Address, IPv4Network

from labnet.lab.components import kube_controller_manager, kube_scheduler
from labnet.store.tls import Tls

COMMON = {"api": "https://192.168.50.10:6443", "ca": "ca", "cert": "crt", "key": "key"}


def test_the_controller_manager_reads_its_grace_period() -> None:
    parsed = kube_controller_manager.parse({**COMMON, "node_monitor_grace": 4})
    assert parsed.node_monitor_grace == 4.0
    assert parsed.tls == Tls("ca", "crt", "key")
    assert kube_controller_manager.parse(COMMON).node_monitor_grace == 40.0


def test_the_scheduler_reads_its_pins() -> None:
    parsed = kube_scheduler.parse(
        {
            **COMMON,
            "pod_pins": {"default/web": ["10.244.1.10"]},
            "pinned_subnets": {"node2": "10.244.1.0/24"},
        }
    )
    assert parsed.pins.addresses == {"default/web": (IPv4Address("10.244.1.10"),)}
    assert parsed.pins.subnets == {"node2": IPv4Network("10.244.1.0/24")}


LIVE = """
import sys, threading
from labnet.lab.components.lifetime import until_terminated

def run(stop):
    print("runs", flush=True)
    if sys.argv[1] == "dies":
        threading.Thread(target=lambda: {}["absent"], name="loop").start()
    stop.wait()
    print("stopped", flush=True)

until_terminated(run)
"""


def alive(how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LIVE, how]
    found = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert found.stdout is not None
    assert found.stdout.readline() == "runs\n"
    return found


def test_sigterm_ends_a_component_in_order() -> None:
    process = alive("lives")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (0, "stopped\n")


def test_a_thread_that_dies_takes_the_process_along_and_says_why() -> None:
    process = alive("dies")
    _, err = process.communicate(timeout=10)
    assert process.returncode == 1
    assert "loop failed" in err
    assert "KeyError: 'absent'" in err
