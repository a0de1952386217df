"""What the kubelet does with a pod, from its creation to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labnet.client.fake import Call
from labnet.client.kinds import CONFIGMAPS, PODS
from labnet.errors import OpFailed, Unavailable
from tests.unit.kubelet_rig import Node, container

HTTP = {"httpGet": {"port": 8080}, "periodSeconds": 2}
EXEC = {"exec": {"command": ["check"]}, "periodSeconds": 2, "failureThreshold": 2}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_new_pod_runs_and_is_ready_after_one_write(node: Node) -> None:
    node.create()
    status = node.pod()["status"]
    assert status["phase"] == "Running"
    assert node.ready()
    assert status["podIP"] == "10.244.2.2"
    assert status["hostIP"] == "192.168.50.11"
    assert status["containerStatuses"][0]["image"] == "docker.io/library/nginx:latest"
    assert status["containerStatuses"][0]["started"] is True
    writes = [w for w in node.api.writes if w.resource == "pods"]
    assert writes == [
        Call("create", "pods", "default", "web"),
        Call("update status", "pods", "default", "web"),
    ]


def test_second_sync_does_nothing(node: Node) -> None:
    node.create()
    calls, writes = list(node.runtime.calls), list(node.api.writes)
    node.kubelet.pods.wake_all()
    node.settle()
    assert (node.runtime.calls, node.api.writes) == (calls, writes)


def test_a_pinned_pod_gets_the_address_of_its_annotation(node: Node) -> None:
    node.create(metadata={"annotations": {"labnet.dev/pod-ip": "10.244.2.10"}})
    assert node.pod()["status"]["podIP"] == "10.244.2.10"


def test_a_pod_waits_for_the_network_and_says_so(tmp_path: Path) -> None:
    node = Node(tmp_path, network_ready=False)
    node.create()
    assert node.waiting() == "ContainerCreating"
    node.write_subnet()
    node.kubelet.node.step()
    node.settle()
    assert node.ready()
    assert ("FailedCreatePodSandBox", "") not in node.events()


def test_host_network_needs_no_pod_network(tmp_path: Path) -> None:
    node = Node(tmp_path, network_ready=False)
    node.create(hostNetwork=True)
    assert node.pod()["status"]["podIP"] == "192.168.50.11"


def test_every_step_of_a_start_is_an_event(node: Node) -> None:
    node.create()
    assert {reason for reason, _ in node.events()} == {"Pulled", "Created", "Started"}


def test_init_containers_run_one_after_the_other(node: Node) -> None:
    node.create(initContainers=[container("one"), container("two")])
    assert node.running() == ["one/0"]
    assert node.waiting() == "PodInitializing"
    assert node.condition("web", "Initialized")["reason"] == "ContainersNotInitialized"
    node.end("one", 0)
    assert node.running() == ["two/0"]
    node.end("two", 0)
    assert node.running() == ["web/0"]
    assert node.ready()


def test_a_failed_init_container_is_tried_again(node: Node) -> None:
    node.create(initContainers=[container("one")])
    node.end("one", 1)
    assert node.running() == ["one/1"]
    node.end("one", 1)
    assert node.running() == []
    node.after(11)
    assert node.running() == ["one/2"]


def test_a_failed_init_container_ends_a_pod_that_never_restarts(node: Node) -> None:
    node.create(initContainers=[container("one")], restartPolicy="Never")
    node.end("one", 1)
    assert node.pod()["status"]["phase"] == "Failed"
    assert node.running() == []


# -- ends and restarts ---------------------------------------------------------------------


def test_the_first_crash_restarts_at_once_and_the_next_ones_ever_later(node: Node) -> None:
    node.create()
    node.end("web", 3)
    assert node.running() == ["web/1"]
    pauses = []
    for attempt in range(2, 8):
        node.end("web", 3)
        assert node.waiting() == "CrashLoopBackOff"
        seconds = 0
        while node.running() != [f"web/{attempt}"]:
            node.after(1)
            seconds += 1
        pauses.append(seconds)
    assert pauses == [10, 20, 40, 80, 160, 300]


def test_a_crash_loop_shows_the_last_end(node: Node) -> None:
    node.create()
    node.end("web", 3)
    node.end("web", 4)
    found = node.pod()["status"]["containerStatuses"][0]
    message = found["state"]["waiting"]["message"]
    assert message.startswith("back-off 10s restarting failed container=web pod=web_default(")
    assert found["lastState"]["terminated"]["exitCode"] == 4
    assert found["restartCount"] == 1
    assert node.pod()["status"]["phase"] == "Running"
    assert not node.ready()
    assert "BackOff" in [reason for reason, _ in node.events()]


def test_ten_minutes_of_life_are_a_fresh_start(node: Node) -> None:
    node.create()
    node.end("web", 1)
    node.end("web", 1)
    node.after(10)
    node.clock.advance(601)
    node.end("web", 1)
    assert node.running() == ["web/3"]


@pytest.mark.parametrize(
    ("policy", "code", "phase", "running"),
    [
        ("Never", 0, "Succeeded", []),
        ("Never", 2, "Failed", []),
        ("OnFailure", 0, "Succeeded", []),
        ("OnFailure", 2, "Running", ["web/1"]),
        ("Always", 0, "Running", ["web/1"]),
    ],
)
def test_the_restart_policy_decides_what_follows_an_end(
    node: Node, policy: str, code: int, phase: str, running: list[str]
) -> None:
    node.create(restartPolicy=policy)
    node.end("web", code)
    assert node.pod()["status"]["phase"] == phase
    assert node.running() == running


def test_an_ended_pod_keeps_its_address_to_be_read_and_gives_it_back(node: Node) -> None:
    node.create(restartPolicy="Never")
    node.end("web", 0)
    assert node.pod()["status"]["podIP"] == "10.244.2.2"
    assert node.state_of()["terminated"]["reason"] == "Completed"
    assert node.condition("web", "Ready")["reason"] == "PodCompleted"
    assert node.kubelet.setting.network.list() == {}


def test_a_dead_sandbox_takes_its_containers_along_and_both_come_back(node: Node) -> None:
    made = node.create()
    node.runtime.end(f"{made['metadata']['uid']}/0", 137, 9)
    node.settle()
    assert node.running() == ["web/1"]
    assert node.ready()


def test_several_containers_share_a_pod_and_restart_alone(node: Node) -> None:
    node.create(containers=[container("a"), container("b")])
    assert node.running() == ["a/0", "b/0"]
    node.end("a", 1)
    assert node.running() == ["a/1", "b/0"]


# -- images and configuration --------------------------------------------------------------


def test_an_unknown_image_is_an_error_and_then_a_back_off(node: Node) -> None:
    node.create(containers=[{"name": "db", "image": "postgres:16"}])
    assert node.waiting() == "ErrImagePull"
    assert "docker.io/library/postgres:16" in node.state_of()["waiting"]["message"]
    node.after(2)
    assert node.waiting() == "ImagePullBackOff"
    assert node.pod()["status"]["phase"] == "Pending"
    messages = dict(node.events())
    assert "nginx, httpd, busybox" in messages["Failed"]
    assert "runtime: docker" in messages["Failed"]


def test_a_missing_config_map_is_waited_for(node: Node) -> None:
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}
    node.create(containers=[container(env=[variable])])
    assert node.waiting() == "CreateContainerConfigError"
    node.api.create(CONFIGMAPS, {"metadata": {"name": "settings"}, "data": {"a": "1"}})
    node.after(6)
    assert node.ready()
    (spec,) = node.runtime.specs.values()
    assert dict(spec.env)["A"] == "1"


def test_a_program_that_cannot_be_started_is_said_so(node: Node) -> None:
    uid = "00000000-0000-0000-0000-000000000001"
    node.runtime.refuses_to_start[uid] = OpFailed("exec: no such file")
    node.create()
    assert node.waiting() == "CreateContainerError"
    node.runtime.refuses_to_start.clear()
    node.after(6)
    assert node.ready()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "hostPath is not supported"),
        ({"securityContext": {"runAsNonRoot": True}}, "image will run as root"),
    ],
)
def test_what_is_not_supported_is_said_in_an_event(
    node: Node, spec: dict[str, Any], words: str
) -> None:
    node.create(**spec)
    assert not node.ready()
    assert any(words in message for _, message in node.events())


# -- probes --------------------------------------------------------------------------------


def test_a_pod_is_not_ready_before_its_readiness_probe_succeeds(node: Node) -> None:
    node.runtime.exec_code = lambda _spec: 1
    node.create(containers=[container(readinessProbe=EXEC)])
    assert not node.ready()
    assert node.condition("web", "Ready")["message"] == "containers with unready status: [web]"
    node.runtime.exec_code = lambda _spec: 0
    node.after(2)
    assert node.ready()


def test_two_failures_in_a_row_take_readiness_away_and_one_does_not(node: Node) -> None:
    node.create(containers=[container(readinessProbe=EXEC)])
    node.after(1)
    assert node.ready()
    node.runtime.exec_code = lambda _spec: 1
    node.after(2)
    assert node.ready()
    node.after(2)
    assert not node.ready()
    assert node.running() == ["web/0"]
    assert any(m.startswith("Readiness probe failed") for _, m in node.events())


def test_a_failed_liveness_probe_restarts_the_container(node: Node) -> None:
    node.create(containers=[container(livenessProbe=EXEC)])
    node.after(1)
    node.runtime.exec_code = lambda _spec: 1
    node.after(4)
    assert node.running() == ["web/1"]
    assert ("Killing", "Container web failed liveness probe, will be restarted") in node.events()


def test_a_startup_probe_holds_the_others_back(node: Node) -> None:
    asked: list[str] = []

    def code(spec: Any) -> int:
        asked.append(spec.argv[0])
        return int(spec.argv[0] == "startup" and len(asked) < 4)

    node.runtime.exec_code = code
    startup = {"exec": {"command": ["startup"]}, "periodSeconds": 1, "failureThreshold": 9}
    node.create(containers=[container(startupProbe=startup, livenessProbe=EXEC)])
    assert not node.ready()
    node.after(3)
    assert node.ready()
    assert asked[:4] == ["startup"] * 4
    assert set(asked[4:]) == {"check"}


# -- deletion ------------------------------------------------------------------------------


def test_a_deleted_pod_ends_by_sigterm_and_is_gone(node: Node) -> None:
    node.create()
    node.api.delete(PODS, "web", "default")
    node.settle()
    assert not node.exists()
    assert next(v for v, _ in node.runtime.calls if v.startswith("SIG")) == "SIGTERM"
    assert node.runtime.processes() == ()
    assert node.kubelet.setting.network.list() == {}


def test_a_container_that_ignores_sigterm_gets_its_grace_period(node: Node) -> None:
    made = node.create(terminationGracePeriodSeconds=20)
    node.runtime.ignores_sigterm.add(f"{made['metadata']['uid']}/web/0")
    node.api.delete(PODS, "web", "default")
    node.after(19)
    assert node.exists()
    node.after(2)
    assert not node.exists()


def test_a_shortened_grace_period_counts(node: Node) -> None:
    made = node.create()
    node.runtime.ignores_sigterm.add(f"{made['metadata']['uid']}/web/0")
    node.api.delete(PODS, "web", "default")
    node.after(2)
    node.api.delete(PODS, "web", "default", grace_seconds=1)
    node.after(2)
    assert not node.exists()


def test_the_pre_stop_hook_comes_before_sigterm(node: Node) -> None:
    hook = {"preStop": {"exec": {"command": ["bye"]}}}
    node.create(containers=[container(lifecycle=hook)])
    node.api.delete(PODS, "web", "default")
    node.settle()
    verbs = [verb for verb, _ in node.runtime.calls]
    assert verbs.index("exec") < verbs.index("SIGTERM")


def test_a_pod_that_vanished_from_the_api_is_ended_without_grace(node: Node) -> None:
    made = node.create()
    node.runtime.ignores_sigterm.add(f"{made['metadata']['uid']}/web/0")
    node.api.delete(PODS, "web", "default", grace_seconds=0)
    node.settle()
    assert node.runtime.processes() == ()


def test_a_pod_of_the_same_name_is_another_pod(node: Node) -> None:
    node.create()
    node.api.delete(PODS, "web", "default", grace_seconds=0)
    second = node.create()
    assert node.ready()
    assert {p.id.split("/")[0] for p in node.runtime.processes()} == {second["metadata"]["uid"]}


# -- restarts of the kubelet, troubles of the API server -----------------------------------


def test_pods_survive_the_kubelet(node: Node) -> None:
    node.create()
    before = node.runtime.processes()
    writes = len(node.api.writes)
    node.restart_kubelet()
    node.settle()
    assert node.runtime.processes() == before
    assert len(node.api.writes) == writes
    node.end("web", 1)
    assert node.running() == ["web/1"]


def test_a_restarted_kubelet_ends_nothing_before_it_has_the_list_of_pods(node: Node) -> None:
    node.create()
    before = node.runtime.processes()
    node.restart_kubelet()
    node.kubelet.node.step()  # the network is there, so every process is looked at
    node.kubelet.pods.work_off()
    assert node.runtime.processes() == before


def test_a_restarted_kubelet_keeps_the_back_off(node: Node) -> None:
    node.create()
    node.end("web", 1)
    node.end("web", 1)
    node.restart_kubelet()
    node.settle()
    assert node.waiting() == "CrashLoopBackOff"
    node.after(10)
    assert node.running() == ["web/2"]


def test_a_restarted_kubelet_ends_what_has_no_pod_any_more(node: Node) -> None:
    node.create()
    node.api.delete(PODS, "web", "default", grace_seconds=0)
    node.restart_kubelet()
    node.settle()
    assert node.runtime.processes() == ()
    assert node.kubelet.setting.network.list() == {}


def test_a_status_that_could_not_be_sent_is_sent_later(node: Node) -> None:
    def unavailable(call: Call) -> None:
        if call.verb == "update status":
            raise Unavailable("connection refused")

    node.api.before_write = unavailable
    node.create()
    assert "conditions" not in node.pod()["status"]
    node.api.before_write = lambda _call: None
    node.after(2)
    assert node.ready()


def test_what_somebody_else_wrote_into_the_status_is_put_right(node: Node) -> None:
    node.create()
    node.api.patch(PODS, "web", "default", {"status": {"phase": "Pending"}}, subresource="status")
    node.settle()
    assert node.pod()["status"]["phase"] == "Running"
