"""The three files with which one side of a TLS connection shows who it is.

Everything that listens in a lab asks for a certificate (decision 6), so everything
that connects has one: the certificate that names it, the key that proves it, and the
certificate of the authority that both sides believe.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files: the authority's certificate, one's own, and its key."""

    ca: str
    cert: str
    key: str
