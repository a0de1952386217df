"""In which form the client wants its answer: the ``Accept`` header, read.

kubectl asks for *Tables* (rows ready to print), controllers for plain objects, some for
the metadata alone. Protobuf is asked for by every typed client but never as the only
form, and JSON is what they get. People with curl get it indented, as from a real
API server.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from labnet.api.status import not_acceptable

JSON, YAML = "application/json", "application/yaml"
_META = "meta.k8s.io"
_BROWSERS = ("curl/", "Wget/", "Mozilla/")


class Form(Enum):
    """What of an object is answered."""

    OBJECT = "object"
    TABLE = "Table"
    PARTIAL = "PartialObjectMetadata"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The form chosen, and its media type."""

    form: Form
    media: str = JSON
    content_type: str = JSON


_ANYTHING = Accepted(Form.OBJECT)


def negotiate(header: str) -> Accepted:
    """Return the first form in an Accept header that is served. Raises ApiError 406."""
    if not header:
        return _ANYTHING
    for part in header.split(","):
        media, *parameters = (p.strip() for p in part.split(";"))
        if media in ("*/*", "application/*"):
            return _ANYTHING
        if media not in (JSON, YAML):
            continue
        given = dict(p.partition("=")[::2] for p in parameters)
        if chosen := _form(media, given):
            return chosen
    raise not_acceptable((JSON, YAML))


def _form(media: str, given: dict[str, str]) -> Accepted | None:
    wanted = given.get("as", "")
    if not wanted:
        return Accepted(Form.OBJECT, media, media)
    if given.get("g") != _META or given.get("v") != "v1":
        return None
    content_type = f"{media};as={wanted};g={_META};v=v1"
    if wanted == "Table":
        return Accepted(Form.TABLE, media, content_type)
    if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
        return Accepted(Form.PARTIAL, media, content_type)
    return None


def discovery_version(header: str) -> str:
    """Return the version of the aggregated discovery document asked for; "": the legacy one."""
    for part in header.split(","):
        if "as=APIGroupDiscoveryList" in part and "g=apidiscovery.k8s.io" in part:
            for version in ("v2beta1", "v2"):
                if f"v={version}" in part:
                    return version
        elif part.strip().startswith((JSON, "*/*")):
            return ""
    return ""


def wants_indent(user_agent: str, pretty: str | None) -> bool:
    """Whether JSON is indented: asked for by ``?pretty``, or a person with a browser or curl."""
    if pretty is not None:
        return pretty not in ("0", "false")
    return user_agent.startswith(_BROWSERS)
