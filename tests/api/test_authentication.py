"""Who may ask: a token, a certificate, and nobody else."""

from __future__ import annotations

import json

from tests.api.server import RunningServer


def _whoami(body: bytes) -> dict[str, object]:
    info: dict[str, object] = json.loads(body)["status"]["userInfo"]
    return info


_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def test_anonymous_requests_are_refused_with_a_status(api: RunningServer) -> None:
    answer = api.request("GET", "/api/v1/namespaces", token=None)
    assert answer.status == 401
    assert answer.json["reason"] == "Unauthorized"
    assert api.request("GET", "/version", token="wrong").status == 401
    assert api.request("GET", "/no/such/path", token=None).status == 401


def test_health_is_open_to_all(api: RunningServer) -> None:
    for path in ("/livez", "/readyz", "/healthz"):
        answer = api.request("GET", path, token=None)
        assert (answer.status, answer.body) == (200, b"ok")


def test_a_token_names_user_and_groups(api: RunningServer) -> None:
    who = _whoami(api.post(_REVIEW, {}).body)
    assert who["username"] == "tester"
    assert who["groups"] == ["testers", "friends", "system:authenticated"]


def test_a_client_certificate_names_its_subject(api: RunningServer) -> None:
    connection = api.connect(certificate=True)
    connection.request("POST", _REVIEW, b"{}")
    assert _whoami(connection.getresponse().read())["username"] == "localhost"
