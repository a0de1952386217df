"""What a request says: who, about what, in which form, how fresh."""

from __future__ import annotations

import pytest

from labnet.api.status import ApiError
from labnet.apiserver.accept import Form, discovery_version, negotiate, wants_indent
from labnet.apiserver.auth import Authenticator, Identity, from_certificate, parse_tokens
from labnet.apiserver.target import Target, parse
from labnet.apiserver.versions import continue_token
from labnet.apiserver.versions import parse as parse_read
from labnet.apiserver.views import verb_of


def test_a_certificate_names_user_and_groups() -> None:
    subject = (
        (("organizationName", "system:nodes"),),
        (("commonName", "system:node:node1"),),
    )
    assert from_certificate({"subject": subject}) == Identity(
        "system:node:node1", groups=("system:nodes", "system:authenticated")
    )
    assert from_certificate(None) is None
    assert from_certificate({}) is None


def test_a_token_file_has_users_and_quoted_groups() -> None:
    found = parse_tokens(['abc,admin,1,"a, b"', "", "def,bob,2"])
    assert found["abc"].groups == ("a", "b", "system:authenticated")
    assert found["def"] == Identity("bob", "2", ("system:authenticated",))


def test_a_certificate_counts_before_a_token_and_nothing_is_401() -> None:
    known = Authenticator({"abc": Identity("bob")})
    assert known.identify(Identity("alice"), "Bearer abc").user == "alice"
    assert known.identify(None, "bearer abc").user == "bob"
    for header in ("", "Bearer abd", "Basic abc", "Bearer"):
        with pytest.raises(ApiError) as error:
            known.identify(None, header)
        assert error.value.code == 401


@pytest.mark.parametrize(
    ("path", "plural", "namespace", "name", "subresource"),
    [
        ("pods", "pods", "", "", ""),
        ("namespaces", "namespaces", "", "", ""),
        ("namespaces/web", "namespaces", "", "web", ""),
        ("namespaces/web/status", "namespaces", "", "web", "status"),
        ("namespaces/web/finalize", "namespaces", "", "web", "finalize"),
        ("namespaces/web/pods", "pods", "web", "", ""),
        ("namespaces/web/pods/a", "pods", "web", "a", ""),
        ("namespaces/web/pods/a/log", "pods", "web", "a", "log"),
        ("nodes/node1/status", "nodes", "", "node1", "status"),
    ],
)
def test_a_path_names_its_target(
    path: str, plural: str, namespace: str, name: str, subresource: str
) -> None:
    found = parse("", "v1", path)
    assert (found.resource.plural, found.namespace, found.name, found.subresource) == (
        plural,
        namespace,
        name,
        subresource,
    )


@pytest.mark.parametrize(
    "path",
    [
        "things",
        "pods/a",
        "namespaces/web/nodes",
        "namespaces/web/pods/a/b",
        "namespaces/web/pods/a/log/x",
        "nodes//status",
    ],
)
def test_other_paths_are_404(path: str) -> None:
    with pytest.raises(ApiError) as error:
        parse("", "v1", path)
    assert error.value.code == 404


def _target(path: str) -> Target:
    return parse("", "v1", path)


def test_method_and_path_make_the_verb() -> None:
    collection, one = _target("namespaces/web/pods"), _target("namespaces/web/pods/a")
    assert verb_of("GET", collection, watch=False) == "list"
    assert verb_of("GET", collection, watch=True) == "watch"
    assert verb_of("GET", one, watch=True) == "watch"
    assert verb_of("DELETE", collection, watch=False) == "deletecollection"
    assert verb_of("POST", collection, watch=False) == "create"
    assert verb_of("PUT", one, watch=False) == "update"
    assert verb_of("POST", _target("namespaces/web/pods/a/exec"), watch=False) == "create"
    assert verb_of("PUT", collection, watch=False) == "put"
    assert verb_of("POST", one, watch=False) == "post"


_TABLES = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("", Form.OBJECT),
        ("*/*", Form.OBJECT),
        ("application/json", Form.OBJECT),
        ("application/vnd.kubernetes.protobuf,application/json", Form.OBJECT),
        ("application/vnd.kubernetes.protobuf, */*", Form.OBJECT),
        (_TABLES, Form.TABLE),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Form.OBJECT),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Form.PARTIAL),
        ("application/yaml", Form.OBJECT),
    ],
)
def test_the_first_form_that_is_served_is_chosen(header: str, form: Form) -> None:
    assert negotiate(header).form is form


def test_a_form_that_is_not_served_is_406() -> None:
    for header in ("text/html", "application/vnd.kubernetes.protobuf"):
        with pytest.raises(ApiError) as error:
            negotiate(header)
        assert error.value.code == 406


def test_discovery_is_aggregated_for_those_who_ask() -> None:
    new = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
    assert discovery_version(f"{new.format('v2')},{new.format('v2beta1')},application/json") == "v2"
    assert discovery_version(new.format("v2beta1")) == "v2beta1"
    assert discovery_version("application/json") == ""
    assert discovery_version("") == ""


def test_people_get_indented_json() -> None:
    assert wants_indent("curl/8.5.0", None)
    assert not wants_indent("kubectl/v1.37.1", None)
    assert wants_indent("kubectl/v1.37.1", "true")
    assert not wants_indent("curl/8.5.0", "false")


def test_a_continue_token_brings_back_where_it_was() -> None:
    token = continue_token(42, "/registry/pods/default/a")
    read = parse_read({"continue": token, "limit": "5"}, watch=False)
    assert (read.revision, read.start, read.limit, read.exact) == (
        42,
        "/registry/pods/default/a",
        5,
        True,
    )


@pytest.mark.parametrize("token", ["!", "abc", continue_token(1, "x")[:-3]])
def test_other_tokens_are_refused(token: str) -> None:
    with pytest.raises(ApiError) as error:
        parse_read({"continue": token}, watch=False)
    assert error.value.code == 400
