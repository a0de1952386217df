"""Starting things: a sandbox with its network, a container with its image and volumes.

Each method does one step and leaves nothing half-done: a sandbox that gets no address
is ended again. What goes wrong becomes a :class:`~labnet.node.kubelet.observed.Waiting`
with Kubernetes' reason, raised as :class:`NotYet`.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from labnet.client.api import Api
from labnet.errors import LabnetError, NotFound
from labnet.image import catalogue
from labnet.naming import POD_IP_ANNOTATION
from labnet.node.kubelet import volumes
from labnet.node.network import PodNetwork
from labnet.node.runtime.model import Runtime
from labnet.sandbox import planner
from labnet.sandbox.pod import Container, Pod
from labnet.sandbox.root import Machine
from labnet.sandbox.security import Refused
from labnet.sandbox.spec import ExecSpec, Process


class NotYet(LabnetError):
    """Something could not be started; ``reason`` is the word for the pod's status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Starter:
    """Starts sandboxes and containers on one node."""

    runtime: Runtime
    network: PodNetwork
    api: Api
    machine: Machine
    volume_root: Path

    def sandbox(self, pod: Pod, attempt: int) -> IPv4Address:
        """Start a sandbox and attach it; return the pod's address. Raises ``NotYet``."""
        if not pod.host_network and not self.network.ready():
            raise NotYet("NetworkNotReady", "network is not ready: flanneld has no subnet yet")
        try:
            spec = planner.plan_sandbox(pod, attempt, self.machine)
            netns = self.runtime.run_sandbox(spec)
        except LabnetError as error:
            raise NotYet("FailedCreatePodSandBox", _text(error)) from error
        try:
            return self._attach(pod, spec.id, netns)
        except LabnetError as error:
            self.runtime.signal(spec.id, signal.SIGKILL)
            raise NotYet("FailedCreatePodSandBox", _text(error)) from error
        finally:
            os.close(netns)

    def _attach(self, pod: Pod, sandbox_id: str, netns: int) -> IPv4Address:
        if pod.host_network:
            return self.machine.address
        labels = {
            "K8S_POD_NAMESPACE": pod.namespace,
            "K8S_POD_NAME": pod.name,
            "K8S_POD_UID": pod.uid,
        }
        try:
            requested = pod.requested_ip
        except ValueError as error:
            raise LabnetError(f"annotation {POD_IP_ANNOTATION} is no address: {error}") from error
        return self.network.add(sandbox_id, netns, requested, labels).ip

    def container(
        self,
        pod: Pod,
        container: Container,
        *,
        sandbox: str,
        address: IPv4Address,
        attempt: int,
        backoff: float,
    ) -> Process:
        """Start a container. Raises ``NotYet``."""
        image = self._image(container)
        try:
            spec = planner.plan_container(
                pod,
                container,
                image,
                self._around(pod, container, address),
                sandbox=sandbox,
                attempt=attempt,
                backoff=backoff,
            )
        except Refused as error:
            raise NotYet("CreateContainerConfigError", _text(error)) from error
        try:
            return self.runtime.start_container(spec)
        except NotFound as error:
            raise NotYet("RunContainerError", _text(error)) from error
        except LabnetError as error:
            raise NotYet("CreateContainerError", _text(error)) from error

    def exec_spec(
        self,
        pod: Pod,
        container: Container,
        container_id: str,
        address: IPv4Address,
        argv: tuple[str, ...],
        *,
        tty: bool = False,
    ) -> ExecSpec:
        """Return what runs ``argv`` in a container. Raises ``NotYet``, ``Refused``."""
        found = self._image(container)
        image = planner.ImageParts(
            found.env, found.cwd, argv, self._program(container, argv), found.programs
        )
        around = planner.Surroundings(
            self.machine, address, {}, volumes.sources(pod, container, self.api)
        )
        return planner.plan_exec(pod, container, container_id, argv, image, around, tty=tty)

    def _around(self, pod: Pod, container: Container, address: IPv4Address) -> planner.Surroundings:
        return planner.Surroundings(
            self.machine,
            address,
            volumes.mount(self.volume_root, pod, self.api),
            volumes.sources(pod, container, self.api),
        )

    def _image(self, container: Container) -> planner.ImageParts:
        try:
            _, image = catalogue.find(container.image)
        except catalogue.ImageError as error:
            raise NotYet(error.reason, _text(error)) from error
        command = catalogue.command_for(image, container.command, container.args)
        return planner.ImageParts(
            image.env, image.cwd, command.argv, command.program, image.programs
        )

    def _program(self, container: Container, argv: tuple[str, ...]) -> str:
        _, image = catalogue.find(container.image)
        return catalogue.program_for(image, argv)


def _text(error: LabnetError) -> str:
    return f"{error.message}: {error.hint}" if error.hint else error.message
