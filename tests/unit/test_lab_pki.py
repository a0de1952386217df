"""Certificates: who is who, for which names, and who cannot read the keys."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from labnet.lab.pki import requests_for, write_pki, write_tokens
from labnet.scenario import load

SCENARIO = Path(__file__).parents[2] / "scenarios" / "my-nginx.yaml"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pki")
    write_pki(directory, requests_for(load(SCENARIO)))
    return directory


def certificate(pki: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((pki / f"{name}.crt").read_bytes())


def values(found: Sequence[x509.NameAttribute[str | bytes]]) -> list[str | bytes]:
    return [attribute.value for attribute in found]


@pytest.mark.parametrize(
    ("name", "user", "groups"),
    [
        ("admin", "kubernetes-admin", ["system:masters"]),
        ("kubelet-node1", "system:node:node1", ["system:nodes"]),
        ("kubelet-control-plane", "system:node:control-plane", ["system:nodes"]),
        ("kube-proxy", "system:kube-proxy", ["system:node-proxier"]),
        ("kube-scheduler", "system:kube-scheduler", []),
        ("kube-controller-manager", "system:kube-controller-manager", []),
        ("kube-apiserver-kubelet-client", "kube-apiserver-kubelet-client", ["system:masters"]),
    ],
)
def test_the_subject_is_the_identity_kubernetes_reads(
    pki: Path, name: str, user: str, groups: list[str]
) -> None:
    subject = certificate(pki, name).subject

    assert values(subject.get_attributes_for_oid(NameOID.COMMON_NAME)) == [user]
    assert values(subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)) == groups


@pytest.mark.parametrize(
    ("name", "authority"),
    [("admin", "ca"), ("kubelet-node2", "ca"), ("etcd", "etcd-ca"), ("flanneld", "etcd-ca")],
)
def test_etcd_has_an_authority_of_its_own(pki: Path, name: str, authority: str) -> None:
    issued = certificate(pki, name)

    issued.verify_directly_issued_by(certificate(pki, authority))
    other = {"ca": "etcd-ca", "etcd-ca": "ca"}[authority]
    with pytest.raises(ValueError, match="Issuer"):
        issued.verify_directly_issued_by(certificate(pki, other))


def test_the_api_server_answers_to_every_name_it_is_called_by(pki: Path) -> None:
    found = certificate(pki, "kube-apiserver").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )

    assert found.value.get_values_for_type(x509.DNSName) == [
        "control-plane",
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ]
    assert found.value.get_values_for_type(x509.IPAddress) == [
        IPv4Address("192.168.50.10"),
        IPv4Address("127.0.0.1"),
        IPv4Address("10.0.0.1"),
    ]


def test_only_servers_may_serve(pki: Path) -> None:
    def usages(name: str) -> list[x509.ObjectIdentifier]:
        found = certificate(pki, name).extensions.get_extension_for_class(x509.ExtendedKeyUsage)
        return list(found.value)

    assert usages("admin") == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert ExtendedKeyUsageOID.SERVER_AUTH in usages("kubelet-node1")


def test_keys_fit_their_certificates_and_nobody_else_reads_them(pki: Path) -> None:
    for path in pki.glob("*.key"):
        key = load_pem_private_key(path.read_bytes(), password=None)
        assert key.public_key() == certificate(pki, path.stem).public_key()
        assert path.stat().st_mode & 0o777 == 0o600


def test_the_authorities_keys_are_not_kept(pki: Path) -> None:
    assert not (pki / "ca.key").exists()
    assert not (pki / "etcd-ca.key").exists()


def test_a_token_names_user_uid_and_groups(tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens.csv")

    token, rest = (tmp_path / "tokens.csv").read_text().split(",", 1)
    assert len(token) >= 32
    assert rest == 'kubernetes-admin,kubernetes-admin,"system:masters"\n'
