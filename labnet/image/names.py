"""Image names: what ``nginx`` is short for.

A reference is ``[registry/]path[:tag][@digest]``. Docker's short forms are a habit the
whole field keeps: without a registry it is docker.io, and there a name without a
publisher is an official image under ``library/``. The first part is a registry only if
it looks like a host: it has a dot or a port, or is ``localhost``.
"""

from __future__ import annotations

from dataclasses import dataclass

from labnet.errors import LabnetError


class ImageError(LabnetError):
    """A container's image is not to be had; ``reason`` is the kubelet's word for it."""

    reason = "ErrImagePull"


class InvalidImageName(ImageError):
    """The text cannot be an image reference."""

    reason = "InvalidImageName"


@dataclass(frozen=True, slots=True)
class Reference:
    """A full image name; ``tag`` is ``latest`` where neither tag nor digest is given."""

    repository: str  # "docker.io/library/nginx"
    tag: str
    digest: str = ""

    def __str__(self) -> str:
        return self.repository + (f"@{self.digest}" if self.digest else f":{self.tag}")


def parse(text: str) -> Reference:
    """Return the full form of ``text``. Raises ``InvalidImageName``."""
    name, _, digest = text.partition("@")
    head, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if not last or (colon and not tag) or text != text.strip() or name != name.lower():
        raise InvalidImageName(
            f'couldn\'t parse image name "{text}": invalid reference format',
            hint="registry/path:tag, the path in lower case",
        )
    return Reference(_repository(f"{head}{slash}{last}"), tag or "latest", digest)


def _repository(path: str) -> str:
    first, slash, rest = path.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return f"docker.io/library/{rest}" if _official(first, rest) else path
    return f"docker.io/{path}" if slash else f"docker.io/library/{path}"


def _official(registry: str, path: str) -> bool:
    return registry == "docker.io" and "/" not in path
