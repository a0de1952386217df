"""The real kubectl, unmodified, against the server: what people type."""

from __future__ import annotations

import json
import subprocess
import threading

import pytest

from tests.api.server import KUBECTL, RunningServer, pod
from tests.conditions import eventually

pytestmark = pytest.mark.kubectl

_PODS = "/api/v1/namespaces/default/pods"
_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "nginx:1", ports: [{containerPort: 80}]}]}
"""

_LIST = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: first}
- apiVersion: v1
  kind: Service
  metadata: {name: second}
  spec: {ports: [{port: 80}], selector: {app: web}}
"""


def test_create_get_describe_and_delete(api: RunningServer) -> None:
    created = api.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    assert created == "deployment.apps/web created\n"
    assert "0/2" in api.kubectl("get", "deploy", "web", "-o", "wide")
    assert "replicas: 2" in api.kubectl("get", "deploy", "web", "-o", "yaml")
    assert "2 desired" in api.kubectl("describe", "deploy", "web")
    assert api.kubectl("delete", "deploy", "web").startswith('deployment.apps "web" deleted')
    missing = api.kubectl("get", "deploy", "web", fails=True)
    assert missing == 'Error from server (NotFound): deployments.apps "web" not found\n'


def test_apply_twice_changes_nothing_and_a_change_is_a_patch(api: RunningServer) -> None:
    said = [
        api.kubectl("apply", "-f", "-", stdin=text)
        for text in (_DEPLOYMENT, _DEPLOYMENT, _DEPLOYMENT.replace("nginx:1", "nginx:2"))
    ]
    assert [line.split()[-1] for line in said] == ["created", "unchanged", "configured"]
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert api.kubectl("get", "deploy", "web", "-o", image) == "nginx:2"


def test_a_list_is_applied_object_by_object(api: RunningServer) -> None:
    assert api.kubectl("apply", "-f", "-", stdin=_LIST).splitlines() == [
        "configmap/first created",
        "service/second created",
    ]
    assert api.kubectl("apply", "-f", "-", stdin=_LIST).splitlines() == [
        "configmap/first unchanged",
        "service/second unchanged",
    ]


def test_a_field_misspelt_in_a_list_is_named(api: RunningServer) -> None:
    misspelt = _LIST.replace("selector:", "selektor:")
    said = api.kubectl("create", "-f", "-", stdin=misspelt, fails=True)
    assert 'unknown field "selektor" in io.k8s.api.core.v1.ServiceSpec' in said
    assert "NotFound" in api.kubectl("get", "service", "second", fails=True)


def test_the_older_document_explains_a_nested_field(api: RunningServer) -> None:
    said = api.kubectl("explain", "service.spec.ports", "--output=plaintext-openapiv2")
    assert "port\t<integer> -required-" in said


def test_server_side_apply_knows_who_owns_what(api: RunningServer) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert "serverside-applied" in api.kubectl(*apply, stdin=_DEPLOYMENT)
    version = api.kubectl("get", "deploy", "web", "-o", "jsonpath={.metadata.resourceVersion}")
    api.kubectl(*apply, stdin=_DEPLOYMENT)
    again = api.kubectl("get", "deploy", "web", "-o", "jsonpath={.metadata.resourceVersion}")
    assert again == version

    api.kubectl("scale", "deploy", "web", "--replicas=3")
    merge = json.dumps({"spec": {"replicas": 3}})
    api.kubectl("patch", "deploy", "web", "--type=merge", "--field-manager=other", "-p", merge)
    more = _DEPLOYMENT.replace("nginx:1", "nginx:2").replace("replicas: 1", "replicas: 5")
    refused = api.kubectl(*apply, "--field-manager=third", stdin=more, fails=True)
    assert "Apply failed with" in refused
    assert ".spec.replicas" in refused
    api.kubectl(*apply, "--field-manager=third", "--force-conflicts", stdin=more)
    assert api.kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "5"


def test_patches_of_three_kinds(api: RunningServer) -> None:
    api.kubectl("apply", "-f", "-", stdin=_DEPLOYMENT)
    strategic = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "n2"}]}}}}
    api.kubectl("patch", "deploy", "web", "-p", json.dumps(strategic))
    merge = json.dumps({"metadata": {"labels": {"a": "b"}}})
    api.kubectl("patch", "deploy", "web", "--type=merge", "-p", merge)
    operation = json.dumps([{"op": "replace", "path": "/spec/replicas", "value": 4}])
    api.kubectl("patch", "deploy", "web", "--type=json", "-p", operation)
    again = api.kubectl("patch", "deploy", "web", "--type=merge", "-p", merge)
    assert again == "deployment.apps/web patched (no change)\n"
    found = api.get("/apis/apps/v1/namespaces/default/deployments/web").json
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["ports"]) == (
        "n2",
        [{"containerPort": 80, "protocol": "TCP"}],
    )
    assert (found["metadata"]["labels"], found["spec"]["replicas"]) == ({"a": "b"}, 4)


def test_label_annotate_scale_and_set_image(api: RunningServer) -> None:
    api.kubectl("apply", "-f", "-", stdin=_DEPLOYMENT)
    assert "labeled" in api.kubectl("label", "deploy", "web", "k=v")
    assert "annotated" in api.kubectl("annotate", "deploy", "web", "k=v")
    assert "scaled" in api.kubectl("scale", "deploy", "web", "--replicas=3")
    assert "scaled" in api.kubectl("scale", "deploy", "web", "--current-replicas=3", "--replicas=2")
    assert "image updated" in api.kubectl("set", "image", "deploy/web", "c=nginx:9")
    assert "web    2" in api.kubectl("get", "deploy", "web", "--subresource=scale")


def test_rollout_status_waits_for_the_status(api: RunningServer) -> None:
    api.kubectl("apply", "-f", "-", stdin=_DEPLOYMENT)
    status = {
        "observedGeneration": 1,
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
    }

    def finish() -> None:
        path = "/apis/apps/v1/namespaces/default/deployments/web/status"
        kind = "application/merge-patch+json"
        api.request("PATCH", path, {"status": status}, Content_Type=kind)

    timer = threading.Timer(0.3, finish)
    timer.start()
    said = api.kubectl("rollout", "status", "deploy/web", "--timeout=10s")
    timer.join()
    assert said.endswith('deployment "web" successfully rolled out\n')


def test_wait_and_a_delete_that_waits_for_the_kubelet(api: RunningServer) -> None:
    api.post(_PODS, pod("web", "node1"))

    def kubelet() -> None:
        eventually(lambda: "deletionTimestamp" in api.get(f"{_PODS}/web").json["metadata"])
        api.request("DELETE", f"{_PODS}/web?gracePeriodSeconds=0")

    thread = threading.Thread(target=kubelet)
    thread.start()
    api.kubectl("wait", "--for=jsonpath={.status.phase}=Pending", "pod/web", "--timeout=5s")
    api.kubectl("delete", "pod", "web")
    thread.join()
    assert api.get(f"{_PODS}/web").status == 404


def test_get_w_prints_what_happens(api: RunningServer) -> None:
    api.post(_PODS, pod("a"))
    arguments = [str(KUBECTL), "--kubeconfig", str(api.kubeconfig()), "get", "pods", "-w"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        api.post(_PODS, pod("b"))
        lines.append(process.stdout.readline())
        process.kill()
    assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [line.split()[0] for line in lines[1:]] == ["a", "b"]


def test_services_and_endpoints_as_people_look_at_them(api: RunningServer) -> None:
    api.kubectl("create", "service", "nodeport", "web", "--tcp=80:8080")
    assert "NodePort" in api.kubectl("get", "svc,ep,endpointslices", "-o", "wide")
    assert "TargetPort:" in api.kubectl("describe", "svc", "web")
    assert "service/kubernetes" in api.kubectl("get", "all")


def test_namespaces_and_everything_in_them(api: RunningServer) -> None:
    api.kubectl("create", "namespace", "shop")
    api.kubectl("create", "configmap", "c", "--from-literal=a=b", "-n", "shop")
    assert "shop" in api.kubectl("get", "cm", "-A")
    api.kubectl("delete", "namespace", "shop", "--wait=false")
    assert "Terminating" in api.kubectl("get", "ns", "shop")


def test_who_am_i_and_may_i(api: RunningServer) -> None:
    assert "tester" in api.kubectl("auth", "whoami")
    assert api.kubectl("auth", "can-i", "create", "pods") == "yes\n"


def test_what_there_is(api: RunningServer) -> None:
    assert "endpointslices" in api.kubectl("api-resources")
    assert "discovery.k8s.io/v1" in api.kubectl("api-versions")
    assert "FIELD: containers" in api.kubectl("explain", "pod.spec.containers")
    assert "v1.37" in api.kubectl("version")


def test_a_file_with_an_unknown_field_is_refused(api: RunningServer) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndatas: {}\n"
    said = api.kubectl("create", "-f", "-", stdin=text, fails=True)
    assert 'unknown field "datas"' in said
