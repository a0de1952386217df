"""From a pod to processes: which sandbox, which containers, with which root.

The kubelet asks here what to start and the zygote starts it; nothing in between
decides anything. The ids carry an attempt, so that a restarted container is another
process with another log, and the labels carry what a restarted kubelet must know of
containers it did not start itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from labnet.sandbox.environment import Facts, Sources, environment, expand
from labnet.sandbox.pod import Container, Pod, Volume
from labnet.sandbox.root import Machine, Program, mounts
from labnet.sandbox.security import (
    MASKED_PATHS,
    READONLY_PATHS,
    Refused,
    capabilities,
    check_container,
    check_pod,
)
from labnet.sandbox.spec import ContainerSpec, ExecSpec, Mount, SandboxSpec

NAMESPACE = "io.kubernetes.pod.namespace"
POD_NAME = "io.kubernetes.pod.name"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER = "io.kubernetes.container.name"
ATTEMPT = "io.kubernetes.container.restartCount"
HASH = "io.kubernetes.container.hash"
BACKOFF = "labnet.dev/backoff"  # seconds to wait if this container ends at once
VOLUME_KINDS = ("emptyDir", "configMap", "secret")


@dataclass(frozen=True, slots=True)
class ImageParts:
    """What a container takes from its image; ``start`` chooses a built-in program."""

    env: tuple[tuple[str, str], ...]
    cwd: str
    argv: tuple[str, ...]
    program: str
    programs: Sequence[Program]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What one start of a container depends on besides pod and image."""

    machine: Machine
    address: IPv4Address  # the pod's
    volume_dirs: Mapping[str, str]  # volume → its directory on the node
    sources: Sources


def sandbox_id(pod: Pod, attempt: int) -> str:
    """Return the id of a pod's sandbox."""
    return f"{pod.uid}/{attempt}"


def container_id(pod: Pod, container: str, attempt: int) -> str:
    """Return the id of one start of a container."""
    return f"{pod.uid}/{container}/{attempt}"


def plan_sandbox(pod: Pod, attempt: int, machine: Machine) -> SandboxSpec:
    """Return the pause process of ``pod``. Raises ``Refused``."""
    check_pod(pod)
    return SandboxSpec(
        id=sandbox_id(pod, attempt),
        node=machine.node,
        hostname=machine.node if pod.host_network else pod.hostname,
        host_network=pod.host_network,
        sysctls=pod.sysctls,
        labels=pod_labels(pod),
    )


def pod_labels(pod: Pod) -> tuple[tuple[str, str], ...]:
    """Return the labels that tie a process to its pod, as CRI has them."""
    return ((NAMESPACE, pod.namespace), (POD_NAME, pod.name), (POD_UID, pod.uid))


def plan_container(
    pod: Pod,
    container: Container,
    image: ImageParts,
    around: Surroundings,
    *,
    sandbox: str,
    attempt: int,
    backoff: float,
) -> ContainerSpec:
    """Return one start of ``container``. Raises ``Refused`` with the reason for an event."""
    machine, security = around.machine, container.security
    check_container(security, one_uid=machine.one_uid)
    facts = Facts(machine.node, machine.address, around.address)
    env = environment(pod, container.env, image.env, facts, around.sources)
    argv = tuple(expand(word, env) for word in image.argv)
    if not argv:
        raise Refused("no command specified", hint="the image has none: give `command`")
    return ContainerSpec(
        id=container_id(pod, container.name, attempt),
        node=machine.node,
        sandbox=sandbox,
        argv=argv,
        program=image.program,
        env=tuple(env.items()),
        cwd=container.cwd or image.cwd or "/",
        mounts=mounts(
            pod, container, machine, around.address, image.programs, _volumes(container, around)
        ),
        capabilities=capabilities(security),
        readonly_root=security.read_only_root,
        masked_paths=MASKED_PATHS,
        readonly_paths=READONLY_PATHS,
        run_as_user=security.run_as_user,
        run_as_group=security.run_as_group,
        no_new_privileges=not security.allow_escalation,
        labels=(
            *pod_labels(pod),
            (CONTAINER, container.name),
            (ATTEMPT, str(attempt)),
            (HASH, container.hash),
            (BACKOFF, f"{backoff:g}"),
        ),
    )


def plan_exec(
    pod: Pod,
    container: Container,
    container_id: str,
    argv: Sequence[str],
    image: ImageParts,
    around: Surroundings,
    *,
    tty: bool = False,
) -> ExecSpec:
    """Return a further process in a running container, with its environment."""
    facts = Facts(around.machine.node, around.machine.address, around.address)
    env = environment(pod, container.env, image.env, facts, around.sources)
    return ExecSpec(
        argv=tuple(argv),
        container=container_id,
        program=image.program,
        env=tuple(env.items()),
        cwd=container.cwd or image.cwd or "/",
        tty=tty,
    )


def _volumes(container: Container, around: Surroundings) -> tuple[Mount, ...]:
    for mount in container.mounts:
        _check_inside(mount.volume, mount.sub_path)
    return tuple(
        Mount(
            "bind",
            mount.path,
            around.volume_dirs[mount.volume] + (f"/{mount.sub_path}" if mount.sub_path else ""),
            ("ro", "nosuid", "nodev") if mount.read_only else ("nosuid", "nodev"),
        )
        for mount in container.mounts
        if mount.volume in around.volume_dirs
    )


def check_volumes(pod: Pod) -> None:
    """Raise ``Refused`` for a volume of a kind that this kubelet does not make."""
    for volume in pod.volumes:
        if volume.kind not in VOLUME_KINDS:
            raise Refused(
                f'MountVolume.SetUp failed for volume "{volume.name}": '
                f"{volume.kind} is not supported, {', '.join(VOLUME_KINDS)} are"
            )


def volume_files(volume: Volume, data: Mapping[str, str]) -> dict[str, str]:
    """Return path → content of a configMap or secret volume. Raises ``Refused``."""
    items = volume.items or tuple((key, key) for key in data)
    for key, path in items:
        if key not in data and not volume.optional:
            raise Refused(f'volume "{volume.name}": references non-existent config key: {key}')
        _check_inside(volume.name, path)
    return {path: data[key] for key, path in items if key in data}


def _check_inside(volume: str, path: str) -> None:
    if path.startswith("/") or ".." in path.split("/"):
        raise Refused(f'volume "{volume}": path {path!r} leaves the volume')
