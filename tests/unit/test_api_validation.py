"""Everything that is wrong with an object, in Kubernetes' own words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labnet.api import names, resources, status, writes
from labnet.api.codec import FieldValidation, checked
from labnet.api.status import ApiError, Cause
from labnet.errors import LabnetError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Fixed:
    """A chooser that always chooses the same."""

    def uid(self) -> str:
        return "uid"

    def suffix(self) -> str:
        return "bcdfg"


def _create(body: dict[str, Any]) -> dict[str, Any]:
    resource = resources.by_kind(body["apiVersion"], body["kind"])
    assert resource is not None
    namespace = "default" if resource.namespaced else ""
    write = writes.Write(resource, "test", NOW, Fixed(), namespace=namespace)
    return writes.create(write, checked(body, FieldValidation.STRICT).object)


def _problems(body: dict[str, Any]) -> list[str]:
    with pytest.raises(ApiError) as refused:
        _create(body)
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    return [f"{c['field']}: {c['message']}" for c in refused.value.details["causes"]]


def _service(**spec: Any) -> dict[str, Any]:
    spec = {"ports": [{"port": 80}]} | spec
    return {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}, "spec": spec}


def _pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    one = {"name": "c", "image": "x"} | (container or {})
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p"},
        "spec": {"containers": [one]} | spec,
    }


def _deployment(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": _pod()["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template} | spec
    return {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({"ports": []}, ["spec.ports: Required value"]),
        (
            {"ports": [{"port": 0}]},
            [
                f"spec.ports[0].{name}: Invalid value: 0: must be between 1 and 65535, inclusive"
                for name in ("port", "targetPort")
            ],
        ),
        (
            {"ports": [{"port": 80, "protocol": "tcp"}]},
            [
                'spec.ports[0].protocol: Unsupported value: "tcp": '
                'supported values: "SCTP", "TCP", "UDP"'
            ],
        ),
        (
            {"ports": [{"port": 80}, {"port": 81}]},
            ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
        ),
        (
            {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]},
            ['spec.ports[1].name: Duplicate value: "a"'],
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30000}]},
            ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (
            {"type": "Nope"},
            [
                'spec.type: Unsupported value: "Nope": supported values: '
                '"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'
            ],
        ),
        (
            {"clusterIP": "10.0.0.300"},
            [
                'spec.clusterIPs[0]: Invalid value: "10.0.0.300": must be a valid IP address, '
                "(e.g. 10.9.8.7 or 2001:db8::ffff)"
            ],
        ),
        (
            {"type": "NodePort", "clusterIP": "None"},
            [
                'spec.clusterIPs[0]: Invalid value: "None": '
                "may not be set to 'None' for NodePort services"
            ],
        ),
        ({"type": "ExternalName", "ports": []}, ["spec.externalName: Required value"]),
        (
            {
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 90000}},
            },
            [
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 90000: "
                "must be greater than 0 and less than 86400"
            ],
        ),
    ],
)
def test_a_wrong_service(spec: dict[str, Any], problems: list[str]) -> None:
    assert _problems(_service(**spec)) == problems


def test_the_same_port_twice_is_shown_as_go_shows_it() -> None:
    ports = [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]
    (problem,) = _problems(_service(ports=ports))
    assert problem.startswith('spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP"')


@pytest.mark.parametrize(
    "spec",
    [
        {"clusterIP": "None", "ports": []},
        {"type": "ExternalName", "externalName": "a.example.", "ports": []},
        {"ports": [{"port": 53, "name": "u", "protocol": "UDP"}, {"port": 53, "name": "t"}]},
        {"clusterIP": "10.0.0.1", "externalIPs": ["192.0.2.1"]},
    ],
)
def test_a_right_service(spec: dict[str, Any]) -> None:
    _create(_service(**spec))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (_pod(containers=[]), "spec.containers: Required value"),
        (_pod({"name": ""}), "spec.containers[0].name: Required value"),
        (_pod({"image": ""}), "spec.containers[0].image: Required value"),
        (
            _pod(initContainers=[{"name": "c", "image": "x"}]),
            'spec.initContainers[0].name: Duplicate value: "c"',
        ),
        (
            _pod(restartPolicy="Sometimes"),
            'spec.restartPolicy: Unsupported value: "Sometimes": '
            'supported values: "Always", "Never", "OnFailure"',
        ),
        (
            _pod({"ports": [{"containerPort": 70000}]}),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: "
            "must be between 1 and 65535, inclusive",
        ),
        (
            _pod({"ports": [{"containerPort": 0}]}),
            "spec.containers[0].ports[0].containerPort: Required value",
        ),
        (
            _pod({"ports": [{"containerPort": 1, "name": "1"}]}),
            'spec.containers[0].ports[0].name: Invalid value: "1": '
            "must contain at least one letter (a-z)",
        ),
        (
            _pod({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ),
        (
            _pod({"readinessProbe": {"periodSeconds": 1}}),
            "spec.containers[0].readinessProbe: Required value: must specify a handler type",
        ),
        (
            _pod({"livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}}),
            "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        (
            _pod({"livenessProbe": {"tcpSocket": {"port": 0}}}),
            "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: 0: "
            "must be between 1 and 65535, inclusive",
        ),
        (
            _pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]),
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
        ),
        (
            _pod({"ports": [{"containerPort": 1, "hostPort": 2}]}, hostNetwork=True),
            "spec.containers[0].ports[0].hostPort: Invalid value: 2: "
            "must match `containerPort` when `hostNetwork` is true",
        ),
    ],
)
def test_a_wrong_pod(body: dict[str, Any], problem: str) -> None:
    assert _problems(body) == [problem]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"selector": {"matchLabels": {"a": "c"}}},
            'spec.template.metadata.labels: Invalid value: {"a":"b"}: '
            "`selector` does not match template `labels`",
        ),
        (
            {"selector": {}},
            "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
        ),
        ({"selector": None}, "spec.selector: Required value"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "spec.selector.matchExpressions[0].values: Required value: "
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
            "spec.strategy.rollingUpdate: Forbidden: "
            "may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: "
            "may not be 0 when `maxSurge` is 0",
        ),
        (
            {
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": _pod(restartPolicy="Never")["spec"],
                }
            },
            'spec.template.spec.restartPolicy: Unsupported value: "Never": '
            'supported values: "Always"',
        ),
    ],
)
def test_a_wrong_deployment(spec: dict[str, Any], problem: str) -> None:
    assert _problems(_deployment(**spec)) == [problem]


def test_a_selector_never_changes() -> None:
    old = _create(_deployment())
    new = _deployment()
    for labels in (
        new["spec"]["selector"]["matchLabels"],
        new["spec"]["template"]["metadata"]["labels"],
    ):
        labels["x"] = "y"
    resource = resources.by_kind("apps/v1", "Deployment")
    assert resource is not None
    write = writes.Write(resource, "test", NOW, Fixed(), namespace="default")
    expected = 'spec.selector: Invalid value: {"matchLabels":{"a":"b","x":"y"}}: field is immutable'
    with pytest.raises(ApiError) as refused:
        writes.update(write, old, new)
    assert refused.value.message == f'Deployment.apps "d" is invalid: {expected}'


@pytest.mark.parametrize(
    ("kind", "name", "rule"),
    [
        ("Service", "1a", "a DNS-1035 label must"),
        ("Namespace", "a.b", "a lowercase RFC 1123 label must"),
        ("Pod", "A", "a lowercase RFC 1123 subdomain must"),
        ("ConfigMap", "a" * 254, "must be no more than 253 characters"),
    ],
)
def test_a_wrong_name(kind: str, name: str, rule: str) -> None:
    body = {"Pod": _pod(), "Service": _service()}.get(kind, {"kind": kind, "apiVersion": "v1"})
    (problem, *_) = _problems(body | {"metadata": {"name": name}})
    assert problem.startswith(f'metadata.name: Invalid value: "{name}": {rule}')


def test_an_object_has_a_name() -> None:
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}}
    assert _problems(body) == ["metadata.name: Required value: name or generateName is required"]


def test_labels_annotations_and_finalizers_have_rules_too() -> None:
    metadata = {
        "name": "c",
        "labels": {"-a": "b", "a": "-"},
        "annotations": {"x/y/z": ""},
        "finalizers": ["/"],
    }
    paths = [
        p.partition(":")[0]
        for p in _problems({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})
    ]
    assert paths[:3] == ["metadata.labels", "metadata.labels", "metadata.annotations"]
    assert paths[-1] == "metadata.finalizers"


def test_secrets_hold_base64_and_config_maps_hold_file_names() -> None:
    secret = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "data": {"a": "!"}}
    assert _problems(secret) == ['data[a]: Invalid value: "!": illegal base64 data']
    config = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "s"},
        "data": {"a b": ""},
    }
    (problem,) = _problems(config)
    assert problem.startswith('data[a b]: Invalid value: "a b": a valid config key')


def test_endpoints_and_slices_hold_addresses() -> None:
    subsets = [{"addresses": [{"ip": "x"}], "ports": [{"port": 0}]}]
    body = {"kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": "e"}, "subsets": subsets}
    assert [p.partition(":")[0] for p in _problems(body)] == [
        "subsets[0].addresses[0].ip",
        "subsets[0].ports[0].port",
    ]
    slice_ = {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"name": "e"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": []}, {"addresses": ["x"]}],
    }
    assert [p.partition(":")[0] for p in _problems(slice_)] == [
        "endpoints[0].addresses",
        "endpoints[1].addresses[0]",
    ]


def test_every_problem_is_told_at_once() -> None:
    body = _pod({"name": "A", "image": ""}, restartPolicy="x", dnsPolicy="y")
    assert len(_problems(body)) == 4


def test_the_message_lists_several_problems_in_brackets() -> None:
    causes = [Cause("FieldValueRequired", "Required value", f) for f in ("a", "b")]
    one, two = (status.invalid("apps", "Deployment", "d", causes[:n]) for n in (1, 2))
    assert one.message == 'Deployment.apps "d" is invalid: a: Required value'
    assert two.message == 'Deployment.apps "d" is invalid: [a: Required value, b: Required value]'
    assert two.status()["details"]["causes"][0] == {
        "reason": "FieldValueRequired",
        "message": "Required value",
        "field": "a",
    }


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (status.not_found("", "pods", "x"), 404, 'pods "x" not found'),
        (
            status.already_exists("apps", "deployments", "x"),
            409,
            'deployments.apps "x" already exists',
        ),
        (
            status.conflict("", "pods", "x"),
            409,
            'Operation cannot be fulfilled on pods "x": the object',
        ),
        (status.forbidden("", "pods", "", "no"), 403, "pods is forbidden: no"),
        (
            status.method_not_allowed("", "pods", "create"),
            405,
            "create is not supported on resources",
        ),
        (status.resource_version_too_large(9, 3), 504, "Too large resource version: 9, current: 3"),
        (status.unauthorized(), 401, "Unauthorized"),
        (status.expired("gone"), 410, "gone"),
        (status.not_acceptable(["a"]), 406, "only the following media types are accepted: a"),
        (status.internal_error("x"), 500, "Internal error occurred: x"),
        (status.no_such_path(), 404, "could not find the requested resource"),
    ],
)
def test_statuses_have_kubernetes_words(error: ApiError, code: int, message: str) -> None:
    document = error.status()
    assert document["code"] == code
    assert message in document["message"]
    assert document["status"] == "Failure"


def test_a_deletion_answers_with_the_uid() -> None:
    document = status.deleted("apps", "deployments", "d", "u")
    assert document["details"] == {"name": "d", "group": "apps", "kind": "deployments", "uid": "u"}


@given(st.text(max_size=70))
def test_a_valid_label_is_a_valid_subdomain_and_label_value(name: str) -> None:
    if not names.label(name):
        assert not names.subdomain(name)
        assert not names.label_value(name)
    if not names.label_1035(name):
        assert not names.label(name)


_WILD = st.recursive(
    st.none() | st.integers(-5, 70000) | st.sampled_from(["", "a", "TCP", "x y"]) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "spec",
                    "name",
                    "labels",
                    "ports",
                    "port",
                    "targetPort",
                    "protocol",
                    "type",
                    "selector",
                    "template",
                    "containers",
                    "image",
                    "env",
                    "volumes",
                    "matchLabels",
                    "matchExpressions",
                    "operator",
                    "strategy",
                    "clusterIP",
                    "subsets",
                    "addresses",
                    "endpoints",
                    "replicas",
                    "readinessProbe",
                    "httpGet",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(
    _WILD,
    st.sampled_from(
        [
            "v1 Pod",
            "v1 Service",
            "v1 Endpoints",
            "apps/v1 Deployment",
            "extensions/v1beta1 Deployment",
        ]
    ),
)
def test_any_object_is_created_or_refused_with_a_labnet_error(wild: Any, which: str) -> None:
    api_version, kind = which.split()
    body = wild if isinstance(wild, dict) else {"spec": wild}
    resource = resources.by_kind(api_version, kind)
    assert resource is not None
    write = writes.Write(resource, "test", NOW, Fixed(), namespace="default")
    try:
        decoded = checked(body | {"kind": kind, "apiVersion": api_version}, FieldValidation.IGNORE)
        writes.create(write, decoded.object)
    except LabnetError:
        return
