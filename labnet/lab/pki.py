"""The lab's certificate authority, and a certificate for everything that speaks.

Every pod can reach the underlay, so nothing in the lab trusts an address: etcd, the API
server and the kubelets ask for a certificate. As in a cluster made by kubeadm there are
two authorities: one for Kubernetes, where the subject of a client certificate *is* the
identity (CN the user, O the groups), and one for etcd, so that a kubelet's certificate
opens no door there. Keys are ECDSA P-256: a dozen pairs take a few milliseconds, where
RSA would take seconds.

Names of the files, in the state directory's ``pki/``, are those of the components:
``kubelet-node1.crt`` with ``kubelet-node1.key``. Keys have mode 0600. The authorities'
own keys are thrown away once everything is signed: a lab issues nothing later.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as new_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from labnet.scenario.model import Lab

CLUSTER_CA = "ca"
ETCD_CA = "etcd-ca"
ADMIN_USER, ADMIN_GROUP = "kubernetes-admin", "system:masters"

_LOOPBACK = IPv4Address("127.0.0.1")
_LIFETIME = timedelta(days=365)
_CLOCK_SKEW = timedelta(hours=1)  # a laptop's clock may be set back after a start


@dataclass(frozen=True, slots=True)
class Request:
    """A certificate to issue; ``addresses`` or ``names`` make it a server's too."""

    file: str
    user: str
    groups: tuple[str, ...] = ()
    addresses: tuple[IPv4Address, ...] = ()
    names: tuple[str, ...] = ()
    authority: str = CLUSTER_CA

    @property
    def serves(self) -> bool:
        """Return whether a server presents this certificate."""
        return bool(self.addresses or self.names)


def requests_for(lab: Lab) -> tuple[Request, ...]:
    """Return every certificate that ``lab`` needs."""
    return (
        *_etcd_requests(lab),
        *_control_plane_requests(lab),
        *(_kubelet_request(node.name, node.address) for node in lab.nodes),
        Request("kube-proxy", "system:kube-proxy", ("system:node-proxier",)),
    )


def _etcd_requests(lab: Lab) -> Iterator[Request]:
    host = lab.nodes[0]
    yield Request(
        "etcd",
        user=host.name,
        addresses=(host.address, _LOOPBACK),
        names=(host.name, "localhost"),
        authority=ETCD_CA,
    )
    yield Request("etcd-client", "kube-apiserver-etcd-client", authority=ETCD_CA)
    yield Request("flanneld", "flanneld", authority=ETCD_CA)


def _control_plane_requests(lab: Lab) -> Iterator[Request]:
    host = lab.nodes[0]
    service = "kubernetes.default.svc"
    yield Request(
        "kube-apiserver",
        user="kube-apiserver",
        addresses=(host.address, _LOOPBACK, lab.service_cidr[1]),
        names=(
            host.name,
            "localhost",
            "kubernetes",
            "kubernetes.default",
            service,
            f"{service}.{lab.cluster_domain}",
        ),
    )
    yield Request("kube-apiserver-kubelet-client", "kube-apiserver-kubelet-client", (ADMIN_GROUP,))
    yield Request("kube-controller-manager", "system:kube-controller-manager")
    yield Request("kube-scheduler", "system:kube-scheduler")
    yield Request("admin", ADMIN_USER, (ADMIN_GROUP,))


def _kubelet_request(node: str, address: IPv4Address) -> Request:
    return Request(
        f"kubelet-{node}",
        user=f"system:node:{node}",
        groups=("system:nodes",),
        addresses=(address,),
        names=(node,),
    )


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: EllipticCurvePrivateKey


def write_pki(directory: Path, wanted: Sequence[Request]) -> None:
    """Make the authorities and all ``wanted`` certificates; write them to ``directory``."""
    authorities = {name: _authority(name) for name in {request.authority for request in wanted}}
    for name, authority in authorities.items():
        _write(directory / f"{name}.crt", authority.certificate.public_bytes(Encoding.PEM))
    for request in wanted:
        key = new_key(SECP256R1())
        certificate = _issue(request, key, authorities[request.authority])
        _write(directory / f"{request.file}.crt", certificate.public_bytes(Encoding.PEM))
        _write(directory / f"{request.file}.key", _pem(key))


def write_tokens(path: Path) -> None:
    """Write the bearer tokens the API server accepts: ``token,user,uid,"groups"`` a line."""
    line = f'{secrets.token_urlsafe(24)},{ADMIN_USER},{ADMIN_USER},"{ADMIN_GROUP}"\n'
    _write(path, line.encode())


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _authority(name: str) -> _Authority:
    key = new_key(SECP256R1())
    subject = _subject(f"labnet {name}", ())
    builder = (
        _builder(subject, subject, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _Authority(builder.sign(key, SHA256()), key)


def _issue(
    request: Request, key: EllipticCurvePrivateKey, authority: _Authority
) -> x509.Certificate:
    issuer = authority.certificate
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(_subject(request.user, request.groups), issuer.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_usages(request)), critical=False)
        .add_extension(identifier, critical=False)
    )
    if request.serves:
        builder = builder.add_extension(_alternatives(request), critical=False)
    return builder.sign(authority.key, SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _CLOCK_SKEW,
        not_valid_after=now + _LIFETIME,
    )


def _subject(user: str, groups: tuple[str, ...]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _usages(request: Request) -> list[x509.ObjectIdentifier]:
    # Every server here is some other server's client as well: etcd's peers check both.
    server = [ExtendedKeyUsageOID.SERVER_AUTH] if request.serves else []
    return [*server, ExtendedKeyUsageOID.CLIENT_AUTH]


def _alternatives(request: Request) -> x509.SubjectAlternativeName:
    names = [x509.DNSName(name) for name in request.names]
    return x509.SubjectAlternativeName([*names, *map(x509.IPAddress, request.addresses)])


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
