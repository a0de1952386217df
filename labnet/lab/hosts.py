"""Finding a host of a running lab by its name, as ``lab.json`` lists them."""

from __future__ import annotations

from difflib import get_close_matches

from labnet.errors import NotFound
from labnet.lab.state import LabInfo


def named(info: LabInfo, name: str) -> str:
    """Return ``name`` if the lab has such a host; ``NotFound`` lists those it has."""
    names = [one.name for one in info.hosts]
    if name in names:
        return name
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"hosts: {', '.join(names)}; pods: pod/NAME"
    raise NotFound(f"lab {info.name} has no host {name!r}", hint=hint)
