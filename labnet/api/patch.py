"""Patches: a description of a change instead of the whole new object.

Four forms, told apart by Content-Type. *JSON Patch* (RFC 6902) is a list of
operations; a *merge patch* (RFC 7386) is a partial object in which null deletes and
lists are replaced whole; a *strategic merge patch* knows from the schema which lists
are maps in disguise (containers by name, ports by port) and merges those;
*server-side apply* also tracks who owns which field.
"""

from __future__ import annotations

from labnet.api.codec import Decoded, FieldValidation
from labnet.api.meta import Object
from labnet.api.patch_types import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    PATCH_TYPES,
    STRATEGIC_PATCH,
)

__all__ = [
    "APPLY_PATCH",
    "JSON_PATCH",
    "MERGE_PATCH",
    "PATCH_TYPES",
    "STRATEGIC_PATCH",
    "patched",
]


def patched(
    current: Object,
    body: bytes,
    content_type: str,
    validation: FieldValidation = FieldValidation.WARN,
) -> Decoded:
    """Return ``current`` (of any version; it names its kind) with the patch applied.

    ``current`` is not changed. Raises ApiError 400, 415, 422.
    """
    raise NotImplementedError
