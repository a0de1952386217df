"""The images of the process runtime: a small catalogue instead of a registry.

A container here is a process over the host's own /usr, so an image is not a file
system: it says what is started when the pod names no command, which environment and
directory that gets, and which built-in programs (``labnet.image.programs``) lie under
which path. Tags and digests are accepted, and one version is behind them all. What is
not in the catalogue cannot be pulled, and the message says what can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from labnet.image.names import ImageError, Reference, parse

__all__ = ["IMAGES", "Command", "Image", "ImageError", "Program", "command_for", "find"]

PATH = "/opt/image/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Program:
    """A built-in program: ``entry`` runs it in the fork, ``path`` starts it from a shell."""

    path: str  # in the container: "/agnhost"
    entry: str  # "agnhost:main", below labnet.image.programs

    def named(self, word: str) -> bool:
        """Return whether ``word``, a command's first, starts this program."""
        on_path = self.path.startswith("/opt/image/bin/")
        return word == self.path or (on_path and word == self.path.rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class Image:
    """One entry of the catalogue, as an OCI image's config would have it."""

    repository: str
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = (("PATH", PATH),)
    cwd: str = "/"
    ports: tuple[int, ...] = ()  # ExposedPorts, TCP
    programs: tuple[Program, ...] = ()

    @property
    def digest(self) -> str:
        """Return a stable digest: there is one version, so the name tells it."""
        return "sha256:" + sha256(self.repository.encode()).hexdigest()


_NGINX = Program("/opt/image/bin/nginx", "web:main")
_HTTPD = Program("/opt/image/bin/httpd-foreground", "web:main")
_AGNHOST = Program("/agnhost", "agnhost:main")
_PAUSE = Program("/pause", "pause:main")

IMAGES: Mapping[str, Image] = {
    image.repository: image
    for image in (
        Image(
            "docker.io/library/nginx",
            cmd=("nginx", "-g", "daemon off;"),
            ports=(80,),
            programs=(_NGINX,),
        ),
        Image(
            "docker.io/library/httpd", cmd=("httpd-foreground",), ports=(80,), programs=(_HTTPD,)
        ),
        Image("docker.io/library/busybox", cmd=("sh",)),
        Image("docker.io/library/alpine", cmd=("/bin/sh",)),
        Image("docker.io/library/debian", cmd=("bash",)),
        Image("registry.k8s.io/pause", entrypoint=("/pause",), programs=(_PAUSE,)),
        Image(
            "registry.k8s.io/e2e-test-images/agnhost",
            entrypoint=("/agnhost",),
            cmd=("pause",),
            ports=(80, 8080, 8081, 9376, 5000),
            programs=(_AGNHOST,),
        ),
    )
}
# Other addresses the same images are known under.
MIRRORS: Mapping[str, str] = {
    "registry.k8s.io/busybox": "docker.io/library/busybox",
    "registry.k8s.io/e2e-test-images/busybox": "docker.io/library/busybox",
    "registry.k8s.io/e2e-test-images/nginx": "docker.io/library/nginx",
    "registry.k8s.io/e2e-test-images/httpd": "docker.io/library/httpd",
    "registry.k8s.io/nginx": "docker.io/library/nginx",
    "k8s.gcr.io/pause": "registry.k8s.io/pause",
    "k8s.gcr.io/e2e-test-images/agnhost": "registry.k8s.io/e2e-test-images/agnhost",
    "public.ecr.aws/docker/library/nginx": "docker.io/library/nginx",
    "public.ecr.aws/docker/library/httpd": "docker.io/library/httpd",
    "public.ecr.aws/docker/library/busybox": "docker.io/library/busybox",
}


@dataclass(frozen=True, slots=True)
class Command:
    """What to start: ``program`` is a built-in's entry, or "" to execute ``argv``."""

    argv: tuple[str, ...]
    program: str = ""


def find(name: str) -> tuple[Reference, Image]:
    """Return the full reference of ``name`` and its image.

    Raises ``ImageError``; for an unknown one the message lists the catalogue.
    """
    reference = parse(name)
    repository = MIRRORS.get(reference.repository, reference.repository)
    if (image := IMAGES.get(repository)) is None:
        raise ImageError(
            f'"{reference}" is not among the images of the process runtime, which are: '
            + ", ".join(_short(known) for known in IMAGES),
            hint="use one of them; images from a registry need `runtime: docker` on the node",
        )
    return reference, image


def command_for(image: Image, command: Sequence[str], args: Sequence[str]) -> Command:
    """Return what a container starts: Kubernetes' rules for command and args.

    ``command`` replaces ENTRYPOINT and drops CMD; ``args`` replaces CMD.
    """
    argv = (*command, *args) if command else (*image.entrypoint, *(args or image.cmd))
    return Command(argv, program_for(image, argv))


def program_for(image: Image, argv: Sequence[str]) -> str:
    """Return the entry of the built-in program that ``argv`` starts, or ""."""
    first = argv[0] if argv else ""
    return next((program.entry for program in image.programs if program.named(first)), "")


def _short(repository: str) -> str:
    return repository.removeprefix("docker.io/library/")
