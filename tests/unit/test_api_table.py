"""Tables: the columns kubectl prints, and the word behind a pod's STATUS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from labnet.api import resources
from labnet.api.duration import human, since
from labnet.api.kinds import KINDS
from labnet.api.table import partial, table

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR_AGO = "2025-12-31T23:00:00Z"
GOLDEN = Path(__file__).parent.parent / "golden" / "api" / "tables.txt"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (11000, "3h3m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (3000 * 86400, "8y"),
    ],
)
def test_durations_are_written_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert human(seconds) == text


def test_an_age_nobody_knows() -> None:
    assert since(None, NOW) == since("soon", NOW) == since(3, NOW) == "<unknown>"
    assert since("2025-12-31T23:59:00.500000Z", NOW) == "59s"


def _state(**state: Any) -> dict[str, Any]:
    return {"name": "c", "ready": "running" in state, "restartCount": 0, "state": state}


def _pod(*states: dict[str, Any], phase: str = "Running", **rest: Any) -> dict[str, Any]:
    status = {"phase": phase, "containerStatuses": list(states)} | rest.pop("status", {})
    metadata = {"name": "p", "creationTimestamp": HOUR_AGO} | rest.pop("metadata", {})
    spec = {"containers": [{"name": f"c{n}"} for n in range(max(len(states), 1))]} | rest
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


def _cells(obj: dict[str, Any]) -> dict[str, Any]:
    resource = resources.by_kind(obj["apiVersion"], obj["kind"])
    assert resource is not None
    made = table(resource, [obj], NOW)
    titles = [c["name"] for c in made["columnDefinitions"]]
    return dict(zip(titles, made["rows"][0]["cells"], strict=True))


RUNNING = _state(running={"startedAt": HOUR_AGO})
DONE = _state(terminated={"exitCode": 0, "reason": "Completed"})
CRASHED = _state(waiting={"reason": "CrashLoopBackOff"})
READY: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "True"}]}
INIT: dict[str, Any] = {"initContainers": [{"name": "i"}, {"name": "j"}]}
DELETED: dict[str, Any] = {"deletionTimestamp": HOUR_AGO}


@pytest.mark.parametrize(
    ("pod", "status", "ready"),
    [
        (_pod(phase="Pending"), "Pending", "0/1"),
        (_pod(RUNNING, RUNNING), "Running", "2/2"),
        (_pod(RUNNING, CRASHED), "CrashLoopBackOff", "1/2"),
        (_pod(DONE, phase="Succeeded"), "Completed", "0/1"),
        (_pod(RUNNING, DONE, status=READY), "Running", "1/2"),
        (_pod(DONE, RUNNING), "NotReady", "1/2"),
        (_pod(_state(terminated={"exitCode": 3}), phase="Failed"), "ExitCode:3", "0/1"),
        (_pod(_state(terminated={"exitCode": 137, "signal": 9})), "Signal:9", "0/1"),
        (_pod(_state(terminated={"exitCode": 1, "reason": "Error"})), "Error", "0/1"),
        (_pod(RUNNING, metadata=DELETED), "Terminating", "1/1"),
        (_pod(DONE, phase="Succeeded", metadata=DELETED), "Completed", "0/1"),
        (_pod(metadata=DELETED, status={"reason": "NodeLost"}), "Unknown", "0/1"),
        (_pod(phase="Failed", status={"reason": "Evicted"}), "Evicted", "0/1"),
        (
            _pod(
                phase="Pending",
                status={"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            ),
            "SchedulingGated",
            "0/1",
        ),
        (
            _pod(status={"initContainerStatuses": [_state(running={})]}, **INIT),
            "Init:0/2",
            "0/1",
        ),
        (
            _pod(status={"initContainerStatuses": [DONE, _state(waiting={})]}, **INIT),
            "Init:1/2",
            "0/1",
        ),
        (
            _pod(status={"initContainerStatuses": [CRASHED]}, **INIT),
            "Init:CrashLoopBackOff",
            "0/1",
        ),
        (
            _pod(status={"initContainerStatuses": [_state(terminated={"exitCode": 2})]}, **INIT),
            "Init:ExitCode:2",
            "0/1",
        ),
        (
            _pod(
                RUNNING,
                initContainers=[{"name": "c", "restartPolicy": "Always"}],
                status={"initContainerStatuses": [RUNNING | {"started": True}]},
            ),
            "Running",
            "2/2",
        ),
    ],
)
def test_the_status_of_a_pod(pod: dict[str, Any], status: str, ready: str) -> None:
    cells = _cells(pod)
    assert (cells["Status"], cells["Ready"]) == (status, ready)


def test_restarts_tell_when_the_last_one_was() -> None:
    last = {"lastState": {"terminated": {"finishedAt": HOUR_AGO}}, "restartCount": 3}
    assert _cells(_pod(RUNNING | last))["Restarts"] == "3 (60m ago)"
    assert _cells(_pod(RUNNING))["Restarts"] == "0"


def test_readiness_gates_are_counted() -> None:
    gates = [{"conditionType": "Ready"}, {"conditionType": "x"}]
    assert _cells(_pod(RUNNING, status=READY, readinessGates=gates))["Readiness Gates"] == "1/2"


def _service(**spec: Any) -> dict[str, Any]:
    status = spec.pop("status", {})
    return {"kind": "Service", "apiVersion": "v1", "metadata": {}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("service", "address"),
    [
        (_service(type="ClusterIP"), "<none>"),
        (_service(type="ClusterIP", externalIPs=["192.0.2.1", "192.0.2.2"]), "192.0.2.1,192.0.2.2"),
        (_service(type="LoadBalancer"), "<pending>"),
        (
            _service(
                type="LoadBalancer", status={"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}
            ),
            "1.2.3.4",
        ),
        (_service(type="ExternalName", externalName="a.example"), "a.example"),
        (_service(), "<unknown>"),
    ],
)
def test_the_external_address_of_a_service(service: dict[str, Any], address: str) -> None:
    assert _cells(service)["External-IP"] == address


def test_endpoints_beyond_three_are_counted() -> None:
    def endpoints(count: int) -> dict[str, Any]:
        addresses = [{"ip": f"10.0.0.{n}"} for n in range(count)]
        subsets = [{"addresses": addresses, "ports": [{"port": 80}]}]
        return {"kind": "Endpoints", "apiVersion": "v1", "metadata": {}, "subsets": subsets}

    assert _cells(endpoints(1))["Endpoints"] == "10.0.0.0:80"
    assert _cells(endpoints(5))["Endpoints"].endswith("10.0.0.2:80 + 2 more...")
    assert _cells(endpoints(0))["Endpoints"] == ""
    assert _cells(endpoints(0) | {"subsets": []})["Endpoints"] == "<none>"


@pytest.mark.parametrize(
    ("node", "status", "roles"),
    [
        ({}, "Unknown", "<none>"),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "Ready", "<none>"),
        (
            {
                "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
                "spec": {"unschedulable": True},
                "metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}},
            },
            "NotReady,SchedulingDisabled",
            "control-plane",
        ),
    ],
)
def test_the_status_and_roles_of_a_node(node: dict[str, Any], status: str, roles: str) -> None:
    cells = _cells({"kind": "Node", "apiVersion": "v1"} | node)
    assert (cells["Status"], cells["Roles"]) == (status, roles)


def test_an_event_names_its_object_and_when_it_was_last_seen() -> None:
    event = {
        "kind": "Event",
        "apiVersion": "v1",
        "involvedObject": {"kind": "Pod", "name": "p"},
        "lastTimestamp": HOUR_AGO,
        "message": " pulled \n",
        "source": {"component": "kubelet", "host": "node1"},
    }
    cells = _cells(event)
    assert (cells["Last Seen"], cells["Object"], cells["Message"]) == ("60m", "pod/p", "pulled")
    assert (cells["Source"], cells["Count"], cells["First Seen"]) == (
        "kubelet, node1",
        1,
        "<unknown>",
    )
    series = event | {"series": {"count": 4, "lastObservedTime": "2025-12-31T23:59:30.000000Z"}}
    assert (_cells(series)["Last Seen"], _cells(series)["Count"]) == ("30s", 4)


def test_an_event_of_the_new_group_has_the_same_columns() -> None:
    event = {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "hello",
        "eventTime": "2025-12-31T23:59:30.000000Z",
    }
    cells = _cells(event)
    assert (cells["Object"], cells["Message"], cells["Last Seen"]) == ("pod/p", "hello", "30s")


@pytest.mark.parametrize("resource", KINDS, ids=lambda r: f"{r.api_version}-{r.kind}")
def test_an_empty_object_of_every_kind_has_a_row(resource: resources.Resource) -> None:
    empty = {"kind": resource.kind, "apiVersion": resource.api_version}
    made = table(resource, [empty], NOW)
    assert len(made["rows"][0]["cells"]) == len(made["columnDefinitions"])


def test_rows_carry_metadata_the_whole_object_or_nothing() -> None:
    pods = resources.by_kind("v1", "Pod")
    assert pods is not None
    pod = _pod(RUNNING)
    made = table(pods, [pod], NOW, metadata={"resourceVersion": "7"})
    assert made["metadata"] == {"resourceVersion": "7"}
    assert made["rows"][0]["object"] == partial(pod)
    assert table(pods, [pod], NOW, include="Object")["rows"][0]["object"] is pod
    assert "object" not in table(pods, [pod], NOW, include="None")["rows"][0]
    assert table(pods, [pod], NOW, columns=False)["columnDefinitions"] == []


def test_a_scale_has_its_own_columns() -> None:
    deployments = resources.by_kind("apps/v1", "Deployment")
    assert deployments is not None
    scale = {"kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 2}}
    made = table(deployments, [scale], NOW)
    assert made["rows"][0]["cells"][:3] == ["d", 2, 0]


def test_a_job_tells_how_long_it_took() -> None:
    ended = (NOW - timedelta(minutes=50)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status: dict[str, Any] = {"startTime": HOUR_AGO, "completionTime": ended, "succeeded": 1}
    status["conditions"] = [{"type": "Complete", "status": "True"}]
    job = {"kind": "Job", "apiVersion": "batch/v1", "spec": {"completions": 1}, "status": status}
    cells = _cells(job)
    assert (cells["Status"], cells["Completions"], cells["Duration"]) == ("Complete", "1/1", "10m")


def test_the_columns_of_every_kind_are_those_of_kubectl(update_golden: bool) -> None:
    """The golden lists each kind's columns; those that only ``-o wide`` shows in brackets."""
    lines = []
    for resource in KINDS:
        columns = table(resource, [], NOW)["columnDefinitions"]
        titles = [f"({c['name']})" if c["priority"] else c["name"] for c in columns]
        lines.append(f"{resource.api_version} {resource.kind}: {', '.join(titles).upper()}")
    text = "\n".join(lines) + "\n"
    if update_golden:
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
