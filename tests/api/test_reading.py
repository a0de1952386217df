"""GET and LIST: freshness, pages, selectors, forms."""

from __future__ import annotations

import json

from tests.api.server import RunningServer, config_map, pod

_MAPS = "/api/v1/namespaces/default/configmaps"
_PODS = "/api/v1/namespaces/default/pods"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def _names(answer: dict[str, list[dict[str, dict[str, str]]]]) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


def test_every_read_includes_the_writes_before_it(api: RunningServer) -> None:
    for n in range(20):
        written = api.post(_MAPS, config_map(f"m{n}")).json["metadata"]["resourceVersion"]
        read = api.get(f"{_MAPS}/m{n}").json
        assert read["metadata"]["resourceVersion"] == written
        assert len(api.get(_MAPS).json["items"]) == n + 1


def test_a_list_has_its_kind_and_the_revision_it_was_read_at(api: RunningServer) -> None:
    written = api.post(_MAPS, config_map("a")).json
    listed = api.get(_MAPS).json
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert listed["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]


def test_pages_show_one_moment_although_objects_come_and_go(api: RunningServer) -> None:
    for name in "abcde":
        api.post(_MAPS, config_map(name))
    first = api.get(f"{_MAPS}?limit=2").json
    assert first["metadata"]["remainingItemCount"] == 3
    api.request("DELETE", f"{_MAPS}/c")
    api.post(_MAPS, config_map("z"))
    second = api.get(f"{_MAPS}?limit=2&continue={first['metadata']['continue']}").json
    third = api.get(f"{_MAPS}?limit=2&continue={second['metadata']['continue']}").json
    assert [_names(page) for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert "continue" not in third["metadata"]


def test_a_continue_token_older_than_compaction_is_expired(api: RunningServer) -> None:
    for name in "abc":
        api.post(_MAPS, config_map(name))
    token = api.get(f"{_MAPS}?limit=1").json["metadata"]["continue"]
    latest = api.post(_MAPS, config_map("d")).json["metadata"]["resourceVersion"]
    api.store.compact(int(latest))
    answer = api.get(f"{_MAPS}?limit=1&continue={token}")
    assert (answer.status, answer.json["reason"]) == (410, "Expired")


def test_an_exact_resource_version_shows_the_past(api: RunningServer) -> None:
    before = api.post(_MAPS, config_map("a")).json["metadata"]["resourceVersion"]
    api.post(_MAPS, config_map("b"))
    exact = f"{_MAPS}?resourceVersion={before}&resourceVersionMatch=Exact"
    assert _names(api.get(exact).json) == ["a"]
    newer = f"{_MAPS}?resourceVersion={before}&resourceVersionMatch=NotOlderThan"
    assert _names(api.get(newer).json) == ["a", "b"]
    assert _names(api.get(f"{_MAPS}?resourceVersion=0&limit=500").json) == ["a", "b"]


def test_options_that_contradict_each_other_are_invalid(api: RunningServer) -> None:
    for query in (
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=Exact&resourceVersion=0",
        "resourceVersionMatch=Sometimes&resourceVersion=1",
        "sendInitialEvents=true",
    ):
        answer = api.get(f"{_MAPS}?{query}")
        assert (answer.status, answer.json["reason"]) == (422, "Invalid"), query
    assert api.get(f"{_MAPS}?resourceVersion=abc").status == 400
    assert api.get(f"{_MAPS}?continue=%21").status == 400


def test_label_and_field_selectors_choose(api: RunningServer) -> None:
    api.post(_PODS, pod("a", "node1", app="x"))
    api.post(_PODS, pod("b", "node2", app="x", tier="y"))
    api.post(_PODS, pod("c", "node1", app="z"))

    def found(query: str) -> list[str]:
        return _names(api.get(f"{_PODS}?{query}").json)

    assert found("labelSelector=app%3Dx") == ["a", "b"]
    assert found("labelSelector=app+in+(x,z),!tier") == ["a", "c"]
    assert found("fieldSelector=spec.nodeName%3Dnode1") == ["a", "c"]
    assert found("fieldSelector=metadata.name%3Db") == ["b"]
    assert found("fieldSelector=spec.nodeName!%3Dnode1&labelSelector=app%3Dx") == ["b"]
    everywhere = api.get("/api/v1/pods?fieldSelector=metadata.namespace%3Ddefault").json
    assert _names(everywhere) == ["a", "b", "c"]
    assert api.get(f"{_PODS}?fieldSelector=spec.colour%3Dred").status == 400


def test_tables_have_columns_rows_and_the_lists_version(api: RunningServer) -> None:
    api.post(_PODS, pod("web", app="x"))
    answer = api.get(_PODS, Accept=_TABLE)
    assert answer.headers["Content-Type"].startswith("application/json;as=Table")
    table = answer.json
    assert table["columnDefinitions"][0]["name"] == "Name"
    assert table["rows"][0]["cells"][:3] == ["web", "0/1", "Pending"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    one = api.get(f"{_PODS}/web?includeObject=Object", Accept=_TABLE).json
    assert one["rows"][0]["object"]["kind"] == "Pod"


def test_metadata_alone_yaml_and_indented_json_can_be_had(api: RunningServer) -> None:
    api.post(_MAPS, config_map("a", key="value"))
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    assert "data" not in api.get(f"{_MAPS}/a", Accept=partial).json
    assert b"key: value" in api.get(f"{_MAPS}/a", Accept="application/yaml").body
    assert b'\n  "data": {' in api.get(f"{_MAPS}/a", User_Agent="curl/8.0").body
    assert b"\n  " not in api.get(f"{_MAPS}/a").body
    assert api.get(f"{_MAPS}/a", Accept="text/html").status == 406


def test_protobuf_is_asked_for_and_json_is_answered(api: RunningServer) -> None:
    accept = "application/vnd.kubernetes.protobuf, */*"
    answer = api.get("/api/v1/namespaces", Accept=accept)
    assert answer.headers["Content-Type"] == "application/json"


def test_an_old_version_shows_the_same_deployment(api: RunningServer) -> None:
    body = {
        "metadata": {"name": "web"},
        "spec": {
            "template": {
                "metadata": {"labels": {"run": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            }
        },
    }
    beta, stable = "/apis/extensions/v1beta1", "/apis/apps/v1"
    path = "/namespaces/default/deployments"
    created = api.post(f"{beta}{path}", body)
    assert (created.status, created.json["apiVersion"]) == (201, "extensions/v1beta1")
    assert api.get(f"{stable}{path}/web").json["apiVersion"] == "apps/v1"
    assert api.get(f"{beta}{path}").json["items"][0]["apiVersion"] == "extensions/v1beta1"


def test_what_is_not_there_is_404_in_kubernetes_words(api: RunningServer) -> None:
    missing = api.get(f"{_PODS}/web").json
    assert missing["message"] == 'pods "web" not found'
    assert missing["details"] == {"name": "web", "kind": "pods"}
    for path in (
        "/api/v1/things",
        "/apis/no.such.group/v1",
        "/api/v2",
        "/nothing",
        "/api/v1/pods/x",
    ):
        answer = api.get(path)
        assert (answer.status, answer.json["reason"]) == (404, "NotFound"), path


def test_discovery_is_served_in_both_forms_and_remembered(api: RunningServer) -> None:
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    new = api.get("/apis", Accept=f"{aggregated},application/json")
    assert new.headers["Content-Type"] == aggregated
    assert new.json["kind"] == "APIGroupDiscoveryList"
    again = api.get("/apis", Accept=aggregated, If_None_Match=new.headers["ETag"])
    assert again.status == 304
    assert api.get("/apis").json["kind"] == "APIGroupList"
    assert api.get("/api").json["kind"] == "APIVersions"
    assert api.get("/api/v1").json["kind"] == "APIResourceList"
    assert api.get("/apis/apps/").json["kind"] == "APIGroup"
    assert api.get("/version/").json["minor"] == "37"


def test_schemas_may_be_kept_for_ever(api: RunningServer) -> None:
    index = api.get("/openapi/v3").json["paths"]
    answer = api.get(index["apis/apps/v1"]["serverRelativeURL"])
    assert "immutable" in answer.headers["Cache-Control"]
    assert "Expires" in answer.headers
    assert "components" in json.loads(answer.body)


def test_the_older_schema_comes_as_protobuf_only_and_once(api: RunningServer) -> None:
    asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    first = api.request("GET", "/openapi/v2", Accept=asked)
    assert first.status == 200
    assert "@" not in first.headers["Content-Type"]
    etag = first.headers["ETag"]
    assert api.request("GET", "/openapi/v2", Accept=asked, If_None_Match=etag).status == 304
    assert api.request("GET", "/openapi/v2", Accept="application/json").status == 406
