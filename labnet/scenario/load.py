"""Load a scenario: read, parse, check the shape, fill in, check the whole.

Each stage reports all its problems and the next one runs only on sound input, as in a
compiler; whatever is found is raised together as one :class:`~labnet.errors.ScenarioError`
before anything is started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from labnet.scenario import build, manifests, objects, rules, schema
from labnet.scenario.model import Lab
from labnet.scenario.problems import Place, Problems
from labnet.scenario.yaml import Located, documents, scalar

MAX_BYTES = 8 * 1024 * 1024


def load(path: Path, overrides: Sequence[tuple[str, str]] = ()) -> Lab:
    """Return the Lab in ``path``, with ``overrides`` of dotted paths like ``spec.proxy.mode``.

    Raises ``ScenarioError`` with every problem found, one per line.
    """
    problems = Problems()
    source = str(path)
    docs = documents(_text(path, None, problems), source, problems)
    if not docs:
        problems.stop_if_any(source)
    document = _lab_document(docs, source, problems)
    for option, value in overrides:
        document = _overridden(document, option, value, problems)
    schema.check(document, problems)
    flat = list(manifests.flattened([*docs[1:], *_included(document, path, problems)]))
    addressable = manifests.check(flat, problems)
    objects.check(addressable, problems)
    problems.stop_if_any(source)
    lab = build.lab(document.plain(), tuple(one.plain() for one in flat))
    for where, message in rules.findings(lab):
        problems.add(_place(document, where), message)
    manifests.check_services(flat, lab, problems)
    problems.stop_if_any(source)
    return lab


def _text(path: Path, asked_by: Place | None, problems: Problems) -> str:
    place = asked_by or Place(str(path))
    try:
        if path.stat().st_size > MAX_BYTES:
            problems.add(place, f"{path} is larger than {MAX_BYTES // 1024 // 1024} MiB")
            return ""
        return path.read_text(encoding="utf-8")
    except OSError as error:
        problems.add(place, f"cannot read {path}: {error.strerror}")
    except UnicodeDecodeError:
        problems.add(place, f"{path} is not text in UTF-8")
    return ""


def _lab_document(docs: list[Located], source: str, problems: Problems) -> Located:
    first = docs[0] if docs else Located(None, Place(source, 1, 1))
    kind = first.get("kind")
    if kind is None or kind.value != "Lab":
        what = f"this is a {kind.value}" if kind and kind.value else "there is none"
        problems.add(
            first.place,
            "the first document must be the Lab (apiVersion: labnet.dev/v1, kind: Lab); " + what,
        )
        problems.stop_if_any(source)
    return first


def _overridden(document: Located, option: str, value: str, problems: Problems) -> Located:
    """Return ``document`` with the value at dotted path ``option`` replaced."""
    place = Place(f"--set {option}={value}")
    head, *rest = option.split(".")
    if not all((head, *rest)):
        problems.add(place, "a path is words with dots between them, like spec.proxy.mode")
        return document
    return _set(document, [head, *rest], scalar(value, place), problems)


def _set(here: Located | None, path: list[str], new: Located, problems: Problems) -> Located:
    head, rest = path[0], path[1:]
    if here is not None and isinstance(here.value, list):
        return _set_item(here, head, rest, new, problems)
    old = here.value if here is not None and isinstance(here.value, dict) else {}
    keys = (here.keys if here is not None else None) or {}
    inner = _set(old.get(head), rest, new, problems) if rest else new
    place = here.place if here is not None else new.place
    return Located({**old, head: inner}, place, {**keys, head: keys.get(head, new.place)})


def _set_item(
    here: Located, head: str, rest: list[str], new: Located, problems: Problems
) -> Located:
    """Lists are addressed by a host's name or by index: ``spec.nodes.node1.subnet``."""
    assert isinstance(here.value, list)
    items = list(here.value)
    for index, item in enumerate(items):
        name = item.get("name")
        if head == str(index) or (name and name.value == head):
            items[index] = _set(item, rest, new, problems) if rest else new
            return replace(here, value=items)
    problems.add(new.place, f'there is no "{head}" in this list')
    return here


def _included(document: Located, path: Path, problems: Problems) -> list[Located]:
    include = document.get("spec", "include")
    found: list[Located] = []
    for item in include.value if include and isinstance(include.value, list) else []:
        if isinstance(item.value, str):
            file = path.parent / item.value
            found += documents(_text(file, item.place, problems), str(file), problems)
    return found


def _place(document: Located, where: rules.Path) -> Place:
    """Return the position of ``where``, or of the nearest thing above it in the file."""
    here = document
    for step in where:
        inner = _by_name(here, step) if str(step).startswith("name=") else here.get(step)
        if inner is None:
            break
        here = inner
    return here.place


def _by_name(here: Located, step: str | int) -> Located | None:
    wanted = str(step).removeprefix("name=")
    matches = [
        item
        for item in (here.value if isinstance(here.value, list) else [])
        if (name := item.get("name")) and name.value == wanted
    ]
    return matches[-1] if matches else None
