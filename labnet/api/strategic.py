"""Strategic merge patch: a merge patch that knows which lists are maps in disguise.

``{"spec":{"containers":[{"name":"web","image":"nginx:2"}]}}`` changes one container and
keeps the others, because the schema says that containers merge by ``name``. The patch
itself may carry directives: ``$patch: delete|replace|merge`` in an object,
``$setElementOrder/<list>``, ``$deleteFromPrimitiveList/<list>`` and ``$retainKeys`` next
to a field. The rules are those of ``k8s.io/apimachinery/pkg/util/strategicpatch``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labnet.api.meta import Object
from labnet.api.schema import ANY, Shape

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


class BadPatch(Exception):
    """A patch that contradicts itself or the schema."""


def merge(current: Object, patch: Object, shape: Shape) -> Object:
    """Return ``current`` with ``patch`` applied; neither is changed. Raises BadPatch."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {k: _plain(v) for k, v in patch.items() if v is not None and k != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise BadPatch(f"unrecognized type: {directive}")
    out = _retained(current, patch)
    for key, value in patch.items():
        if key in (_DIRECTIVE, _RETAIN) or key.startswith((_ORDER, _DELETE)):
            continue
        if value is None:
            out.pop(key, None)
        else:
            out[key] = _field(out.get(key), value, _child(shape, key), patch.get(_ORDER + key))
    for key, value in patch.items():
        _list_directive(out, patch, key, value, shape)
    return out


def _child(shape: Shape, key: str) -> Shape:
    if shape.type == "map":
        return shape.item or ANY
    return shape.fields.get(key, ANY)


def _retained(current: Object, patch: Object) -> Object:
    keys = patch.get(_RETAIN)
    if keys is None:
        return dict(current)
    if not isinstance(keys, list):
        raise BadPatch("invalid patch format of retainKeys directive")
    stray = [
        k for k, v in patch.items() if v is not None and not k.startswith("$") and k not in keys
    ]
    if stray:
        raise BadPatch(
            f"{_RETAIN} directives must be a superset of the fields in the patch: {stray}"
        )
    return {k: v for k, v in current.items() if k in keys}


def _field(current: Any, value: Any, shape: Shape, order: Any) -> Any:
    """Return one field after the patch."""
    if isinstance(value, dict):
        if isinstance(current, dict) and "replace" not in shape.strategies:
            return merge(current, value, shape)
        return merge({}, value, shape)
    if isinstance(value, list) and "merge" in shape.strategies:
        return _list(current if isinstance(current, list) else [], value, shape, order)
    return _plain(value)


def _list_directive(out: Object, patch: Object, key: str, value: Any, shape: Shape) -> None:
    """Carry out a directive about a list the patch does not name otherwise."""
    if key.startswith(_DELETE):
        name = key.removeprefix(_DELETE)
        if not isinstance(value, list):
            raise BadPatch("invalid patch format of primitive list")
        if isinstance(out.get(name), list):
            out[name] = [entry for entry in out[name] if entry not in value]
    elif key.startswith(_ORDER):
        name = key.removeprefix(_ORDER)
        if name not in patch and isinstance(out.get(name), list):
            list_shape = _child(shape, name)
            out[name] = _list(out[name], [], list_shape, value)


def _list(current: list[Any], patch: list[Any], shape: Shape, order: Any) -> list[Any]:
    """Return a merged list: by merge key, or as a set of plain values."""
    if order is not None and not isinstance(order, list):
        raise BadPatch("invalid patch format of setElementOrder list")
    item = shape.item or ANY
    if item.type != "object" or not shape.merge_key:
        merged = current + [entry for entry in patch if entry not in current]
        return _ordered(merged, patch if order is None else order, current, lambda entry: entry)
    key = shape.merge_key
    if any(_is(entry, "replace") for entry in patch):
        return [_plain(entry) for entry in patch if not _is(entry, "replace")]
    merged = _by_key(current, patch, key, item)
    if order is None:
        order = [entry for entry in patch if not _is(entry, "delete")]
    return _ordered(merged, order, current, lambda entry: _key_of(entry, key))


def _is(entry: Any, directive: str) -> bool:
    return isinstance(entry, dict) and entry.get(_DIRECTIVE) == directive


def _key_of(entry: Any, key: str) -> Any:
    if not isinstance(entry, dict) or key not in entry:
        raise BadPatch(f"map: {entry} does not contain declared merge key: {key}")
    return entry[key]


def _by_key(current: list[Any], patch: list[Any], key: str, item: Shape) -> list[Any]:
    out = list(current)
    for entry in patch:
        name = _key_of(entry, key)
        at = next(
            (n for n, e in enumerate(out) if isinstance(e, dict) and e.get(key) == name), None
        )
        if _is(entry, "delete"):
            out = [e for e in out if not (isinstance(e, dict) and e.get(key) == name)]
        elif at is None:
            out.append(merge({}, entry, item))
        else:
            out[at] = merge(out[at], entry, item)
    return out


def _ordered(
    merged: list[Any], order: list[Any], before: list[Any], key: Callable[[Any], Any]
) -> list[Any]:
    """Return ``merged`` in the patch's order, other elements where they were.

    Elements the patch names come in its order, the rest in the old one. The two rows are
    zipped: an element of the rest goes first only where it stood before the named one in
    the old list. So a new container comes first, as in life.
    """
    wanted = [key(entry) for entry in order]
    old = [key(entry) for entry in before]
    named = sorted((e for e in merged if key(e) in wanted), key=lambda e: wanted.index(key(e)))
    rest = [e for e in merged if key(e) not in wanted]
    rest.sort(key=lambda e: old.index(key(e)) if key(e) in old else len(old))
    out: list[Any] = []
    while named and rest:
        name, other = key(named[0]), key(rest[0])
        other_first = name in old and other in old and old.index(other) < old.index(name)
        out.append((rest if other_first else named).pop(0))
    return out + named + rest


def _plain(value: Any) -> Any:
    """Return a part of the patch as a part of an object: no nulls, no directives."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None and not k.startswith("$")}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value
