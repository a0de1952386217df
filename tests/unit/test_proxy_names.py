"""Chain names are those of real clusters, so that search engines know them."""

from __future__ import annotations

import pytest

from labnet.naming import CHAIN_MAX, endpoint_chain, service_chain


@pytest.mark.parametrize(
    ("prefix", "service_port", "protocol", "chain"),
    [
        ("KUBE-SVC", "default/my-nginx:", "TCP", "KUBE-SVC-BEPXDJBUHFCSYIC3"),
        ("KUBE-SVC", "sock-shop/front-end:", "TCP", "KUBE-SVC-LFMD53S3EZEAOUSJ"),
        ("KUBE-SVC", "default/kubernetes:https", "TCP", "KUBE-SVC-NPX46M4PTMTKRN6Y"),
        ("KUBE-SVC", "kube-system/kube-dns:dns", "UDP", "KUBE-SVC-TCOU7JCQXEZGVUNU"),
        ("KUBE-SVC", "kube-system/kube-dns:dns-tcp", "TCP", "KUBE-SVC-ERIFXISQEP7F7OF4"),
        ("KUBE-SVC", "ns1/svc1", "TCP", "KUBE-SVC-AQI2S6QIMU7PVVRP"),
        ("KUBE-EXT", "ns5/svc5:p80", "TCP", "KUBE-EXT-NUKIZ6OKUXPJNT4C"),
    ],
)
def test_service_chain(prefix: str, service_port: str, protocol: str, chain: str) -> None:
    assert service_chain(prefix, service_port, protocol) == chain
    assert len(chain) <= CHAIN_MAX


@pytest.mark.parametrize(
    ("service_port", "endpoint", "chain"),
    [
        ("default/my-nginx:", "10.244.1.10:80", "KUBE-SEP-U4UWLP4OR3LOJBXU"),
        ("default/my-nginx:", "10.244.2.10:80", "KUBE-SEP-QHRWSLKOO5YUPI7O"),
        ("sock-shop/front-end:", "10.244.2.5:8079", "KUBE-SEP-SM6TGF2R62ADFGQA"),
        ("ns1/svc1:p80", "10.180.0.1:80", "KUBE-SEP-SXIVWICOYRO3J4NJ"),
        ("ns1/svc1", "10.0.1.1:80", "KUBE-SEP-3JOIVZTXZZRGORX4"),
    ],
)
def test_endpoint_chain(service_port: str, endpoint: str, chain: str) -> None:
    assert endpoint_chain(service_port, "TCP", endpoint) == chain
