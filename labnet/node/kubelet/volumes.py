"""A pod's volumes on the node: directories that its containers get as bind mounts.

``emptyDir`` is an empty directory that lives as long as the pod, configMap and secret
are files written from the API object when the pod starts. They lie where kubelet has
them, below ``/var/lib/kubelet/pods/<uid>/volumes``, in the node's own tmpfs.
"""

from __future__ import annotations

import shutil
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

from labnet.api.resources import find
from labnet.client.api import Api
from labnet.client.kinds import CONFIGMAPS
from labnet.errors import NotFound
from labnet.sandbox.environment import Sources
from labnet.sandbox.planner import check_volumes, volume_files
from labnet.sandbox.pod import Container, Pod, Volume
from labnet.sandbox.security import Refused

ROOT = Path("/var/lib/kubelet/pods")
PLUGINS = {"emptyDir": "empty-dir", "configMap": "configmap", "secret": "secret"}


def directory(root: Path, pod: Pod, volume: Volume) -> Path:
    """Return where ``volume`` lies."""
    return root / pod.uid / "volumes" / f"kubernetes.io~{PLUGINS[volume.kind]}" / volume.name


def mount(root: Path, pod: Pod, api: Api) -> Mapping[str, str]:
    """Make every volume of ``pod`` that is not there yet; return name → directory.

    Raises ``Refused`` for an unsupported kind or a missing object, ``Unavailable``.
    """
    check_volumes(pod)
    return {volume.name: str(_made(root, pod, volume, api)) for volume in pod.volumes}


def _made(root: Path, pod: Pod, volume: Volume, api: Api) -> Path:
    path = directory(root, pod, volume)
    if path.exists():
        return path
    if volume.kind == "emptyDir":
        path.mkdir(parents=True)
        path.chmod(0o777)
        return path
    files = volume_files(volume, _data(volume, pod, api))
    path.mkdir(parents=True)
    for name, text in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return path


def _data(volume: Volume, pod: Pod, api: Api) -> Mapping[str, str]:
    kind = volume.kind.lower()
    try:
        return read(kind, pod.namespace, volume.source_name, api)
    except NotFound as error:
        if volume.optional:
            return {}
        raise Refused(
            f'MountVolume.SetUp failed for volume "{volume.name}" : '
            f'{kind} "{volume.source_name}" not found'
        ) from error


def read(kind: str, namespace: str, name: str, api: Api) -> Mapping[str, str]:
    """Return the data of a ``configmap`` or ``secret`` as text. Raises ``NotFound``."""
    if kind == "configmap":
        return api.get(CONFIGMAPS, name, namespace).get("data") or {}
    secrets = find("", "v1", "secrets")
    if secrets is None:
        raise NotFound(f'this API server has no secrets: "{name}"')
    data = api.get(secrets, name, namespace).get("data") or {}
    return {key: b64decode(value).decode(errors="replace") for key, value in data.items()}


def remove(root: Path, uid: str) -> None:
    """Remove everything of a pod; fine if there is nothing."""
    shutil.rmtree(root / uid, ignore_errors=True)


def sources(pod: Pod, container: Container, api: Api) -> Sources:
    """Return the ConfigMaps and Secrets that the variables of ``container`` refer to."""
    found: dict[tuple[str, str], Mapping[str, str]] = {}
    wanted = {(v.source, v.source_name) for v in container.env if v.source}
    for kind, name in sorted(wanted):
        try:
            found[kind, name] = read(kind, pod.namespace, name, api)
        except NotFound:
            continue  # the planner says which variable misses it
    return found
