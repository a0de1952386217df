"""The two doors into a running lab: PID 1's control socket and the API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labnet.lab.state import LabInfo, StateDirectory
from labnet.sandbox.zygote import Zygote

API_TIMEOUT = 30.0


def connect(state: StateDirectory) -> Zygote:
    """Return PID 1 of the lab, ready to be asked; the caller closes it."""
    from labnet.linux.seqpacket import Client

    return Zygote(Client(state.control))


class Api:
    """The API server as the lab's admin, over the host's loopback."""

    def __init__(self, pki: Path, port: int, timeout: float = API_TIMEOUT) -> None:
        from labnet.client.http import Client, Tls

        tls = Tls(ca=str(pki / "ca.crt"), cert=str(pki / "admin.crt"), key=str(pki / "admin.key"))
        self.client = Client(f"https://127.0.0.1:{port}", tls, timeout=timeout)

    def items(self, path: str) -> Sequence[Mapping[str, Any]]:
        """Return the objects of the collection at ``path``."""
        found: Sequence[Mapping[str, Any]] = self.client.request("GET", path).get("items") or ()
        return found

    def get(self, path: str) -> dict[str, Any]:
        """Return the document at ``path``."""
        return self.client.request("GET", path)

    def close(self) -> None:
        """Close every connection."""
        self.client.close()


def api_of(state: StateDirectory, info: LabInfo, timeout: float = API_TIMEOUT) -> Api:
    """Return the API server of a running lab; the caller closes it."""
    return Api(state.pki, info.api_port, timeout)
