"""Patches: a description of a change instead of the whole new object.

Four forms, told apart by Content-Type. *JSON Patch* (RFC 6902) is a list of
operations; a *merge patch* (RFC 7386) is a partial object in which null deletes and
lists are replaced whole; a *strategic merge patch* (``strategic``) knows from the schema
which lists are maps in disguise; *server-side apply* also tracks who owns which field,
and is done by ``writes.apply``, because it may create the object too.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from labnet.api import codec, strategic
from labnet.api.codec import Decoded, FieldValidation
from labnet.api.meta import Object
from labnet.api.patch_types import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    PATCH_TYPES,
    STRATEGIC_PATCH,
)
from labnet.api.schema import shape_of
from labnet.api.status import ApiError, Cause, bad_request, invalid, unsupported_media_type

__all__ = [
    "APPLY_PATCH",
    "JSON_PATCH",
    "MERGE_PATCH",
    "PATCH_TYPES",
    "STRATEGIC_PATCH",
    "patched",
]

_SERVED = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)
_MOST_OPERATIONS = 10000


def patched(
    current: Object,
    body: bytes,
    content_type: str,
    validation: FieldValidation = FieldValidation.WARN,
) -> Decoded:
    """Return ``current`` (of any version; it names its kind) with the patch applied.

    ``current`` is not changed. Raises ApiError 400, 415, 422.
    """
    media = content_type.partition(";")[0].strip().lower()
    if media not in _SERVED:
        raise unsupported_media_type(_SERVED)
    duplicates: tuple[str, ...] = ()
    if media == JSON_PATCH:
        new = _json_patched(current, body)
    else:
        patch, duplicates = codec.parse_json(body)
        new = _merged(current, patch, media)
    if not isinstance(new, dict):
        raise _rejected("the patch leaves no object")
    for name in ("kind", "apiVersion"):
        if new.get(name) != current.get(name):
            raise _rejected(f"a patch may not change {name}")
    return _checked(new, body, validation, duplicates)


def _checked(
    new: Object, body: bytes, validation: FieldValidation, duplicates: tuple[str, ...]
) -> Decoded:
    """Decode the result as a whole object; what is wrong is the patch's fault: 422."""
    try:
        return codec.checked(new, validation, duplicates)
    except ApiError as error:
        why = error.message.partition(" cannot be handled as a ")[2].partition(": ")[2]
        text = json.dumps(body.decode(errors="replace"))
        cause = Cause(
            "FieldValueInvalid", f"Invalid value: {text}: {why or error.message}", "patch"
        )
        raise invalid("", "", "", [cause]) from None


def _merged(current: Object, patch: Object, media: str) -> Object:
    if media == MERGE_PATCH:
        merged: Object = merge_patch(current, patch)
        return merged
    shape = shape_of(current.get("apiVersion", ""), current.get("kind", ""))
    if shape is None:
        raise unsupported_media_type((JSON_PATCH, MERGE_PATCH))
    try:
        return strategic.merge(current, patch, shape)
    except strategic.BadPatch as error:
        raise _rejected(str(error)) from None


def merge_patch(current: Any, patch: Any) -> Any:
    """Return ``current`` with a merge patch applied (RFC 7386); neither is changed."""
    if not isinstance(patch, dict):
        return patch
    out = dict(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


def _json_patched(current: Object, body: bytes) -> Any:
    import jsonpatch  # only here: most patches are merge patches

    try:
        operations = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: json: cannot unmarshal into a list of operations")
    if len(operations) > _MOST_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}"
        raise ApiError(413, "RequestEntityTooLarge", text)
    refusals = (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, *_UNAPPLICABLE)
    new = deepcopy(current)
    for number, operation in enumerate(operations):
        try:
            new = jsonpatch.JsonPatch([operation]).apply(new, in_place=True)
        except jsonpatch.JsonPatchTestFailed:
            raise _rejected(f"testing value {operation['path']} failed") from None
        except refusals as error:
            raise _rejected(f"operation {number} cannot be applied: {error}") from None
    return new


_UNAPPLICABLE = (TypeError, ValueError, KeyError, IndexError, AttributeError)


def _rejected(why: str) -> ApiError:
    text = f"the server rejected our request due to an error in our request: {why}"
    return ApiError(422, "Invalid", text)
