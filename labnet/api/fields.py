"""Sets of fields: which parts of an object somebody has written.

A field is a path of elements in the notation of ``managedFields``: ``f:name`` a field or
a map's key, ``k:{"name":"web"}`` an element of a list that is a map in disguise,
``v:"x"`` a value of a list that is a set. Lists of other kinds, and maps marked atomic,
are owned as a whole. ``FieldsV1`` is the same set as nested objects, with ``.`` where a
path is a member itself and has members below it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from labnet.api.meta import Object
from labnet.api.schema import ANY, Shape, shape_of

Path = tuple[str, ...]

# What the server writes belongs to nobody; status has a door of its own.
_UNTRACKED = ("apiVersion", "kind", "status")
_TRACKED_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
KEY_DEFAULTS = {"protocol": "TCP"}  # list keys that may be left out in what is applied


def leaves(obj: Object) -> dict[Path, Any]:
    """Return every field of ``obj`` that can be owned, and its value.

    The membership of a list element is a field too, with the value True.
    """
    shape = shape_of(obj.get("apiVersion", ""), obj.get("kind", "")) or ANY
    tracked = {name: value for name, value in obj.items() if name not in _UNTRACKED}
    metadata = tracked.get("metadata") or {}
    tracked["metadata"] = {n: metadata[n] for n in _TRACKED_METADATA if n in metadata}
    found = dict(_leaves(tracked, shape, ()))
    found.pop(("f:metadata",), None)
    return found


def child(shape: Shape, name: str) -> Shape:
    """Return the shape of a field, or of a map's values."""
    if shape.type == "map":
        return shape.item or ANY
    return shape.fields.get(name, ANY)


def _leaves(value: Any, shape: Shape, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value and not shape.atomic:
        for name, below in value.items():
            yield from _leaves(below, child(shape, name), (*path, f"f:{name}"))
    elif isinstance(value, list) and value and shape.list_type == "map":
        for entry in value:
            at = (*path, key_element(entry, shape))
            yield at, True
            yield from _leaves(entry, shape.item or ANY, at)
    elif isinstance(value, list) and value and shape.list_type == "set":
        for entry in value:
            yield (*path, "v:" + _json(entry)), entry
    else:
        yield path, value


def key_element(entry: Any, shape: Shape) -> str:
    """Return the path element of one element of a list that is a map: ``k:{…}``."""
    fields = entry if isinstance(entry, dict) else {}
    keys = {k: fields.get(k, KEY_DEFAULTS.get(k)) for k in shape.map_keys}
    return "k:" + _json({k: v for k, v in sorted(keys.items()) if v is not None})


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def encode(paths: Iterable[Path]) -> Object:
    """Return the FieldsV1 of a set of paths."""
    members = set(paths)
    root: Object = {}
    for path in sorted(members):
        node = root
        for element in path:
            node = node.setdefault(element, {})
    return _marked(root, members, ())


def _marked(node: Object, members: set[Path], path: Path) -> Object:
    """Return the nested form with a ``.`` at members that have members below."""
    out: Object = {".": {}} if node and path in members else {}
    for element, below in node.items():
        out[element] = _marked(below, members, (*path, element))
    return out


def decode(fields: Any) -> set[Path]:
    """Return the paths in a FieldsV1; what is no such thing is an empty set."""
    return set(_decode(fields, ())) if isinstance(fields, dict) else set()


def _decode(node: Object, path: Path) -> Iterator[Path]:
    for element, below in node.items():
        if element == ".":
            yield path
        elif isinstance(below, dict) and below:
            yield from _decode(below, (*path, element))
        else:
            yield (*path, element)


def text(path: Path) -> str:
    """Return a path as people read it: ``.spec.containers[name="web"].image``."""
    return "".join(_element_text(element) for element in path)


def _element_text(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "v":
        return f"[={rest}]"
    keys = json.loads(rest)
    return "[" + ",".join(f"{k}={_json(v)}" for k, v in keys.items()) + "]"


def without(obj: Object, paths: Iterable[Path]) -> Object:
    """Return ``obj`` without the fields at ``paths``, and without maps that leaves empty.

    List elements go before their fields, by which they are known.
    """
    out = obj
    for path in sorted(paths, key=len):
        out = _without(out, path)
    return out


def _without(value: Any, path: Path) -> Any:
    element, rest = path[0], path[1:]
    if element.startswith("f:"):
        name = element[2:]
        if not isinstance(value, dict) or name not in value:
            return value
        below = _without(value[name], rest) if rest else None
        kept = {k: v for k, v in value.items() if k != name}
        return kept if below in (None, {}, []) else value | {name: below}
    if not isinstance(value, list):
        return value
    wanted = json.loads(element[2:])
    if rest:
        return [_without(e, rest) if _is(e, element, wanted) else e for e in value]
    return [e for e in value if not _is(e, element, wanted)]


def _is(entry: Any, element: str, wanted: Any) -> bool:
    if element.startswith("v:"):
        return bool(entry == wanted)
    if not isinstance(entry, dict):
        return False
    return all(entry.get(k, KEY_DEFAULTS.get(k)) == v for k, v in wanted.items())
