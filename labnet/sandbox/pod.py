"""A pod as the node sees it: what it is made of, as values.

:mod:`labnet.sandbox.pod_object` reads them out of the API server's object once, at the
edge; kubelet and planners work on these. What the process runtime cannot honour is not
dropped: it is kept as it came (a volume's ``kind``, a probe's ``kind``), so that whoever
meets it can say so in an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address

from labnet.naming import POD_IP_ANNOTATION


@dataclass(frozen=True, slots=True)
class Action:
    """What a probe or a lifecycle hook does; ``kind``: exec, httpGet, tcpSocket, sleep, …"""

    kind: str
    argv: tuple[str, ...] = ()
    host: str = ""  # "": the pod's address
    port: int = 0
    path: str = "/"
    tls: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    seconds: int = 0  # sleep


@dataclass(frozen=True, slots=True)
class Probe:
    """A check repeated every ``period`` seconds; thresholds are runs in a row."""

    action: Action
    initial_delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    success_threshold: int = 1
    failure_threshold: int = 3
    grace: int | None = None  # terminationGracePeriodSeconds of this probe


@dataclass(frozen=True, slots=True)
class EnvVar:
    """One variable: a plain value (``$(NAME)`` is expanded) or a reference."""

    name: str
    value: str = ""
    field: str = ""  # fieldRef.fieldPath
    source: str = ""  # "configmap" or "secret"
    source_name: str = ""
    key: str = ""  # "" with a source: all its keys (envFrom); ``name`` is the prefix
    optional: bool = False
    unsupported: str = ""  # the name of a source that is not understood


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """Where a container has a volume."""

    volume: str
    path: str
    sub_path: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of the pod; ``kind`` is the field's name: emptyDir, configMap, secret …"""

    name: str
    kind: str
    source_name: str = ""
    items: tuple[tuple[str, str], ...] = ()  # key → path; empty: every key under its name
    optional: bool = False
    memory: bool = False


@dataclass(frozen=True, slots=True)
class Security:
    """A container's securityContext over its pod's."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    privileged: bool = False
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool = False
    read_only_root: bool = False
    allow_escalation: bool = True


@dataclass(frozen=True, slots=True)
class Container:
    """One app or init container as its pod asks for it."""

    name: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    cwd: str = ""
    env: tuple[EnvVar, ...] = ()
    mounts: tuple[VolumeMount, ...] = ()
    security: Security = Security()
    liveness: Probe | None = None
    readiness: Probe | None = None
    startup: Probe | None = None
    pre_stop: Action | None = None
    post_start: Action | None = None
    tty: bool = False
    stdin: bool = False
    hash: str = ""  # changes when a running container must be replaced


@dataclass(frozen=True, slots=True)
class DnsConfig:
    """``spec.dnsConfig``."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # "ndots:2"


@dataclass(frozen=True, slots=True)
class Pod:
    """What the node needs to know of one pod."""

    namespace: str
    name: str
    uid: str
    node: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    volumes: tuple[Volume, ...]
    restart_policy: str
    grace: int
    host_network: bool
    hostname: str
    subdomain: str
    dns_policy: str
    dns: DnsConfig
    host_aliases: tuple[tuple[str, tuple[str, ...]], ...]
    service_account: str
    sysctls: tuple[tuple[str, str], ...]
    deleted: datetime | None  # deletionTimestamp: the moment the grace period ends
    phase: str  # as the API server has it

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Return whether the API server already knows this pod as ended for good."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def requested_ip(self) -> IPv4Address | None:
        """Return the address the scheduler reserved for this pod, if any."""
        text = self.annotations.get(POD_IP_ANNOTATION)
        return IPv4Address(text) if text else None
