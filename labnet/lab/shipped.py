"""The scenarios that come with labnet: found in a wheel and in a checkout alike.

A scenario is ``NAME.yaml`` or a folder ``NAME/`` with ``lab.yaml`` in it. The wheel has
them as ``labnet/scenarios``; in a checkout they lie beside the package.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import labnet
from labnet.errors import NotFound

DEFAULT = "my-nginx"


def directory() -> Path:
    """Return where the shipped scenarios are."""
    package = Path(labnet.__file__).parent
    installed = package / "scenarios"
    return installed if installed.is_dir() else package.parent / "scenarios"


def shipped(where: Path | None = None) -> dict[str, Path]:
    """Return every shipped scenario's file by its name."""
    where = directory() if where is None else where
    files = {path.stem: path for path in where.glob("*.yaml")}
    folders = {path.parent.name: path for path in where.glob("*/lab.yaml")}
    return dict(sorted({**files, **folders}.items()))


def resolve(given: str | None, where: Path | None = None) -> Path:
    """Return the file that a path or a shipped name means; the default for None.

    What looks like a path (a slash, or an ending) is one; a bare name is looked up
    among the shipped scenarios first.
    """
    known = shipped(where)
    name = given or DEFAULT
    if name in known:
        return known[name]
    path = Path(name)
    if path.is_dir():
        path = path / "lab.yaml"
    if path.is_file():
        return path
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    what = f"there is no file {name}" if "/" in name or "." in name else f"no scenario {name!r}"
    raise NotFound(what, hint=f"{hint}`labnet scenarios` lists those that come with labnet")
