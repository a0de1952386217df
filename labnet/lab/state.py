"""Where a running lab keeps what it needs to know.

Each lab has one directory, mode 0700, below a base that belongs to one user:
``$XDG_RUNTIME_DIR/labnet``, else ``/run/labnet`` for root and ``/tmp/labnet-<uid>`` for
everybody else. Inside lie the lock (:mod:`labnet.lab.liveness`), the control socket,
certificates, logs and ``lab.json``. The same directory appears in the sandbox and on
every node as ``/run/labnet``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from labnet.errors import LabnetError, Unavailable
from labnet.linux.files import write_whole

INSIDE = Path("/run/labnet")
"""Where the state directory is mounted in the sandbox and on every node."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_NAME_MAX = 63


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """The paths of one lab's state; nothing here touches the disk."""

    path: Path

    @property
    def name(self) -> str:
        """Return the lab's name."""
        return self.path.name

    @property
    def lock(self) -> Path:
        """Return the file that is locked while the lab lives."""
        return self.path / "lock"

    @property
    def control(self) -> Path:
        """Return the unix socket on which PID 1 takes requests."""
        return self.path / "control.sock"

    @property
    def kubeconfig(self) -> Path:
        """Return the admin's kubeconfig, for use on the host."""
        return self.path / "kubeconfig"

    @property
    def info(self) -> Path:
        """Return ``lab.json``."""
        return self.path / "lab.json"

    @property
    def scenario(self) -> Path:
        """Return the scenario file as it was started."""
        return self.path / "scenario.yaml"

    @property
    def pki(self) -> Path:
        """Return the directory of keys and certificates."""
        return self.path / "pki"

    @property
    def logs(self) -> Path:
        """Return the directory of component logs."""
        return self.path / "logs"


@dataclass(frozen=True, slots=True)
class Host:
    """A host of a running lab, as ``lab.json`` lists it."""

    name: str
    address: str
    role: str  # "control-plane", "worker" or "client"


@dataclass(frozen=True, slots=True)
class LabInfo:
    """What ``lab.json`` says of a running lab, for people and for other commands."""

    name: str
    title: str
    started: str  # RFC 3339
    pid: int  # of the lab's PID 1, as the host sees it
    api: str  # "https://127.0.0.1:40123"
    api_port: int
    hosts: tuple[Host, ...]
    components: tuple[str, ...]
    addresses: Mapping[str, str] = field(default_factory=dict)  # CIDRs by name
    versions: Mapping[str, str] = field(default_factory=dict)
    source: str = ""  # the scenario file it was started from


def is_name(text: str) -> bool:
    """Return whether ``text`` can name a lab: a DNS label, RFC 1123."""
    return len(text) <= _NAME_MAX and bool(_LABEL.fullmatch(text))


def check_name(name: str) -> str:
    """Return ``name`` if it can name a lab, else raise ``LabnetError``."""
    if is_name(name):
        return name
    raise LabnetError(
        f"{name!r} cannot be a lab's name",
        hint="use up to 63 small letters, digits and hyphens, with a letter or digit at both ends",
    )


def base_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Return the directory above all labs of this user; it need not exist yet.

    ``XDG_RUNTIME_DIR`` counts only if it belongs to this user: ``su`` leaves the
    caller's behind, and a lab in somebody else's directory would not be ours.
    """
    environment = os.environ if environment is None else environment
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    if runtime and owner(Path(runtime)) == os.geteuid():
        return Path(runtime) / "labnet"
    if os.geteuid() == 0:
        return Path("/run/labnet")
    return Path(f"/tmp/labnet-{os.geteuid()}")  # see private_directory


def owner(path: Path) -> int | None:
    """Return the uid that ``path`` belongs to, or None where there is nothing."""
    try:
        return path.stat().st_uid
    except OSError:
        return None


def private_directory(path: Path) -> Path:
    """Make ``path`` with mode 0700, or check that it is already ours alone.

    A directory in /tmp may have been made by anybody: a symbolic link, another owner
    or permissions for others are refused, not repaired.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700, parents=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise LabnetError(f"{path} is not a directory", hint=f"move it away: mv {path} {path}.old")
    if found.st_uid != os.geteuid():
        raise LabnetError(
            f"{path} belongs to uid {found.st_uid}, not to you (uid {os.geteuid()})",
            hint="set XDG_RUNTIME_DIR to a directory of your own, or have its owner remove it",
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise LabnetError(f"{path} is open to other users", hint=f"chmod 700 {path}")
    return path


def write_info(state: StateDirectory, info: LabInfo) -> None:
    """Write ``lab.json`` in one step: readers see the old or the new file."""
    write_whole(state.info, json.dumps(asdict(info), indent=2) + "\n")


def read_info(state: StateDirectory) -> LabInfo:
    """Return what ``lab.json`` says; ``Unavailable`` while ``up`` has not written it."""
    try:
        raw: dict[str, Any] = json.loads(state.info.read_text())
        hosts = tuple(Host(**host) for host in raw.pop("hosts"))
        return LabInfo(**{**raw, "hosts": hosts, "components": tuple(raw["components"])})
    except FileNotFoundError:
        raise Unavailable(
            f"lab {state.name} is still starting", hint="wait for `labnet up` to finish"
        ) from None
    except (ValueError, TypeError, KeyError) as broken:
        raise LabnetError(
            f"{state.info} cannot be read: {broken}", hint=f"labnet down {state.name}"
        ) from broken


def wait_ended(pidfd: int, seconds: float) -> bool:
    """Wait until the process behind ``pidfd`` has ended; return False if time ran out."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
