"""The registry of kinds, discovery and OpenAPI: three readings of one table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labnet.api import definitions, discovery, openapi, resources
from labnet.api.kinds import KINDS
from labnet.api.patch_types import STRATEGIC_PATCH
from labnet.api.schema import shape_of


def test_names_and_paths_are_unique() -> None:
    assert len({(r.group, r.version, r.plural) for r in KINDS}) == len(KINDS)
    assert len({(r.api_version, r.kind) for r in KINDS}) == len(KINDS)


def test_no_two_kinds_share_a_storage_path_unless_one_is_the_others_hub() -> None:
    own = [r.storage for r in resources.stored()]
    assert len(set(own)) == len(own)
    for resource in KINDS:
        if resource.hub:
            group, _, version = resource.stored_version.rpartition("/")
            hub = resources.find(group, version, resource.plural)
            assert hub is not None
            assert hub.storage == resource.storage


@pytest.mark.parametrize(
    ("group", "plural", "namespace", "name", "key"),
    [
        ("", "pods", "default", "web", "/registry/pods/default/web"),
        ("", "services", "default", "web", "/registry/services/specs/default/web"),
        ("", "endpoints", "default", "web", "/registry/services/endpoints/default/web"),
        ("", "nodes", "", "node1", "/registry/minions/node1"),
        ("", "namespaces", "ignored", "default", "/registry/namespaces/default"),
    ],
)
def test_keys_are_those_of_a_real_api_server(
    group: str, plural: str, namespace: str, name: str, key: str
) -> None:
    resource = resources.find(group, "v1", plural)
    assert resource is not None
    assert resource.key(namespace, name) == key


def test_a_prefix_ends_with_a_slash_so_that_no_other_namespace_matches() -> None:
    pods = resources.find("", "v1", "pods")
    assert pods is not None
    assert pods.prefix("a") == "/registry/pods/a/"
    assert pods.prefix() == "/registry/pods/"


def test_what_is_not_served_is_not_found() -> None:
    assert resources.find("apps", "v1", "pods") is None
    assert resources.by_kind("v1", "Deployment") is None


def test_apps_comes_before_extensions_so_that_deployments_means_apps() -> None:
    groups = [group for group, _ in resources.group_versions()]
    assert groups[0] == ""
    assert groups.index("apps") < groups.index("extensions")


def test_every_kind_has_a_schema() -> None:
    for resource in KINDS:
        assert shape_of(resource.api_version, resource.kind) is not None, resource.kind
        assert resource.kind in definitions.definition_name(resource.api_version, resource.kind)


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated_discovery_tells_core_and_groups_apart(version: str) -> None:
    core, groups = (discovery.aggregated(is_core, version) for is_core in (True, False))
    assert core["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    assert [item["metadata"] for item in core["items"]] == [{}]
    assert {"apps", "extensions"} <= {item["metadata"]["name"] for item in groups["items"]}


def _entry(document: dict[str, Any], name: str) -> dict[str, Any]:
    (version,) = document["items"][0]["versions"]
    return next(r for r in version["resources"] if r["resource"] == name)


def test_a_subresource_names_the_kind_it_takes() -> None:
    pods = _entry(discovery.aggregated(core=True), "pods")
    eviction = next(s for s in pods["subresources"] if s["subresource"] == "eviction")
    assert eviction["responseKind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}
    assert pods["shortNames"] == ["po"]
    assert pods["categories"] == ["all"]


def test_legacy_discovery_lists_subresources_beside_their_parents() -> None:
    listed = discovery.api_resource_list("apps", "v1")
    assert listed is not None
    named = {entry["name"]: entry for entry in listed["resources"]}
    assert named["deployments/scale"]["group"] == "autoscaling"
    assert "group" not in named["deployments/status"]
    assert named["deployments"]["singularName"] == "deployment"


def test_legacy_group_documents() -> None:
    assert discovery.api_versions("10.0.0.1:6443")["versions"] == ["v1"]
    apps = discovery.api_group("apps")
    assert apps is not None
    assert apps["preferredVersion"]["groupVersion"] == "apps/v1"
    assert discovery.api_group("nope") is None
    assert discovery.api_group("") is None
    assert discovery.api_resource_list("apps", "v9") is None
    assert apps["versions"] in [g["versions"] for g in discovery.api_group_list()["groups"]]


def _document(group_version: str) -> dict[str, Any]:
    body = openapi.document(group_version)
    assert body is not None
    found: dict[str, Any] = json.loads(body)
    return found


def test_the_index_has_an_address_with_a_hash_for_every_group_version() -> None:
    paths = openapi.index()["paths"]
    assert len(paths) == len(resources.group_versions())
    digest = openapi.digest("apis/apps/v1")
    assert paths["apis/apps/v1"]["serverRelativeURL"] == f"/openapi/v3/apis/apps/v1?hash={digest}"


@pytest.mark.parametrize("path", sorted(openapi.index()["paths"]))
def test_a_document_is_whole(path: str) -> None:
    document = _document(path)
    schemas = document["components"]["schemas"]
    for name in definitions.references(json.dumps(document).encode()):
        assert name in schemas
    assert "v1beta1" not in json.dumps(document["info"])


def test_patch_takes_field_validation_and_strategic_merge_patches() -> None:
    """Without these kubectl asks for the old OpenAPI v2 document at every apply."""
    paths = _document("apis/apps/v1")["paths"]
    patch = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in [p["name"] for p in patch["parameters"]]
    assert STRATEGIC_PATCH in patch["requestBody"]["content"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Deployment"


def test_extensions_has_its_own_deployment_without_a_required_selector() -> None:
    schemas = _document("apis/extensions/v1beta1")["components"]["schemas"]
    deployment = schemas["io.k8s.api.extensions.v1beta1.Deployment"]
    (kind,) = deployment["x-kubernetes-group-version-kind"]
    assert kind == {"group": "extensions", "version": "v1beta1", "kind": "Deployment"}
    assert schemas["io.k8s.api.extensions.v1beta1.DeploymentSpec"]["required"] == ["template"]
    assert "io.k8s.api.apps.v1.Deployment" not in schemas


def test_the_schema_knows_which_lists_are_maps_in_disguise() -> None:
    shape = shape_of("v1", "Service")
    assert shape is not None
    ports = shape.fields["spec"].fields["ports"]
    assert ports.merge_key == "port"
    assert ports.strategies == {"merge"}
    assert ports.map_keys == ("port", "protocol")


def test_unknown_kinds_and_documents_are_none() -> None:
    assert shape_of("v1", "Nope") is None
    assert openapi.document("apis/nope/v1") is None
    assert openapi.digest("nope") is None


def test_the_shipped_schema_is_what_the_generator_writes() -> None:
    """The roots are the kinds of the registry: a new kind needs a new file."""
    script = Path(__file__).parents[2] / "scripts" / "generate_schema.py"
    done = subprocess.run([sys.executable, str(script), "--check"], check=False)
    assert done.returncode == 0, "run scripts/generate_schema.py"
