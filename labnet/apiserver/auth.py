"""Who is asking: an identity from a client certificate or a bearer token.

A certificate of the cluster's CA names the user in its common name and the groups in
its organizations, so ``CN=system:node:node1, O=system:nodes`` is node1's kubelet. A
token is looked up in a file of lines ``token,user,uid,"group1,group2"`` (Kubernetes'
``--token-auth-file``). Whoever has neither is anonymous and gets 401; authorization is
not modelled yet: an authenticated identity may do everything.
"""

from __future__ import annotations

import csv
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from labnet.api.status import unauthorized

AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class Identity:
    """A user, as a request's author."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()


def from_certificate(certificate: Mapping[str, Any] | None) -> Identity | None:
    """Return whom a verified certificate (``SSLSocket.getpeercert()``) names, or None."""
    subject = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for key, value in subject if key == "commonName"]
    if not names:
        return None
    groups = [value for key, value in subject if key == "organizationName"]
    return Identity(names[-1], groups=(*groups, AUTHENTICATED))


def parse_tokens(lines: Iterable[str]) -> dict[str, Identity]:
    """Return the identities of a token file by token; lines with fewer than 3 columns fail."""
    found: dict[str, Identity] = {}
    for row in csv.reader(line for line in lines if line.strip()):
        token, user, uid, *groups = (column.strip() for column in row)
        listed = [g.strip() for g in ",".join(groups).split(",") if g.strip()]
        found[token] = Identity(user, uid, (*listed, AUTHENTICATED))
    return found


class Authenticator:
    """Knows the tokens; certificates were verified by TLS already."""

    def __init__(self, tokens: Mapping[str, Identity]) -> None:
        self._tokens = [(token.encode(), identity) for token, identity in tokens.items()]

    def identify(self, certificate: Identity | None, authorization: str) -> Identity:
        """Return who is asking; a certificate counts before a token. Raises ApiError 401.

        ``authorization`` is the header of that name, "" if there is none.
        """
        if certificate is not None:
            return certificate
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer":
            given = token.strip().encode()
            for known, identity in self._tokens:
                if hmac.compare_digest(known, given):  # takes as long for a wrong one
                    return identity
        raise unauthorized()
