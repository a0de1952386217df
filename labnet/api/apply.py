"""Server-side apply: "these fields shall have these values, and they are mine".

The applier sends only what it cares about. Fields it sent last time and leaves out now
are removed, unless somebody else owns them too. A field that somebody else set to
another value is a conflict, refused with 409 unless forced; forcing takes the field over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labnet.api import fields, managed
from labnet.api.fields import Path
from labnet.api.managed import Owner
from labnet.api.meta import Object
from labnet.api.schema import ANY, Shape, shape_of
from labnet.api.status import ApiError, Cause


def applied(old: Object, config: Object, me: Owner, *, force: bool) -> Object:
    """Return ``old`` with ``config`` applied by ``me`` (whose ``fields`` are ignored).

    Its managedFields are brought up to date. Raises ApiError 409.
    """
    wanted, live = fields.leaves(config), fields.leaves(old)
    known = managed.owners(old)
    mine = next((o for o in known if o.is_same(me)), None)
    others = [o for o in known if o is not mine]
    clashes = [(o, _clashing(o, wanted, live)) for o in others]
    if not force and any(paths for _, paths in clashes):
        raise _conflict(clashes)
    others = [replace(o, fields=o.fields - paths) for o, paths in clashes]
    dropped = (mine.fields if mine else frozenset()) - wanted.keys()
    dropped -= frozenset().union(*(o.fields for o in others))
    shape = shape_of(old.get("apiVersion", ""), old.get("kind", "")) or ANY
    merged: Object = _merged(fields.without(old, dropped), config, shape)
    now_mine = replace(me, fields=frozenset(wanted))
    if mine is not None and mine.fields == now_mine.fields:
        now_mine = replace(now_mine, time=mine.time)
    merged["metadata"] = dict(merged.get("metadata") or {})
    managed.set_owners(merged, [*others, now_mine])
    return merged


def _clashing(owner: Owner, wanted: dict[Path, Any], live: dict[Path, Any]) -> frozenset[Path]:
    """Return what ``owner`` owns and the applier wants to be otherwise."""
    return frozenset(
        path for path in owner.fields if path in wanted and live.get(path) != wanted[path]
    )


def _merged(live: Any, config: Any, shape: Shape) -> Any:
    """Return what is there with what is applied on top."""
    if isinstance(live, dict) and isinstance(config, dict) and not shape.atomic:
        out = dict(live)
        for name, value in config.items():
            below = fields.child(shape, name)
            out[name] = _merged(live[name], value, below) if name in live else value
        return out
    if isinstance(live, list) and isinstance(config, list):
        if shape.list_type == "map":
            return _merged_elements(live, config, shape)
        if shape.list_type == "set":
            return live + [entry for entry in config if entry not in live]
    return config


def _merged_elements(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    keyed = {fields.key_element(entry, shape): entry for entry in live}
    for entry in config:
        key = fields.key_element(entry, shape)
        keyed[key] = _merged(keyed[key], entry, shape.item or ANY) if key in keyed else entry
    return list(keyed.values())


def _conflict(clashes: Sequence[tuple[Owner, frozenset[Path]]]) -> ApiError:
    named = [(_named(o), fields.text(p)) for o, paths in clashes for p in sorted(paths)]
    if len(named) == 1:
        text = f"Apply failed with 1 conflict: conflict with {named[0][0]}: {named[0][1]}"
    else:
        parts = []
        for owner in dict.fromkeys(owner for owner, _ in named):
            parts.append(f"conflicts with {owner}:")
            parts += [f"- {path}" for name, path in named if name == owner]
        text = f"Apply failed with {len(named)} conflicts: " + "\n".join(parts)
    causes = [Cause("FieldManagerConflict", f"conflict with {o}", p) for o, p in named]
    details = {"causes": [cause.document() for cause in causes]}
    return ApiError(409, "Conflict", text, details=details)


def _named(owner: Owner) -> str:
    name = f'"{owner.manager}"'
    if owner.subresource:
        name += f' with subresource "{owner.subresource}"'
    return f"{name} using {owner.api_version}" if owner.operation == "Update" else name
