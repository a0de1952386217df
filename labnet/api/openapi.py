"""OpenAPI v3: the schema of every object, from which kubectl validates and explains.

``/openapi/v3`` lists one document per group version with a hash in its address, so
that a client may keep it for ever; ``kubectl apply`` reads the patch strategies of lists
out of it, ``kubectl explain`` the descriptions. The schemas ship with labnet in one
compressed file (``scripts/generate_schema.py``); a document is spliced out of its text
without parsing it.
"""

from __future__ import annotations

from labnet.api.meta import JsonObject


def index() -> JsonObject:
    """Return ``/openapi/v3``: the address of each group version's document."""
    raise NotImplementedError


def document(group_version: str) -> bytes | None:
    """Return the OpenAPI v3 document (JSON) of e.g. ``api/v1`` or ``apis/apps/v1``."""
    raise NotImplementedError


def digest(group_version: str) -> str | None:
    """Return the hash in that document's address; also good as its ETag."""
    raise NotImplementedError
