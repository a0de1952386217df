"""YAML in, values that still know where they stood.

A problem is only useful with a line number, so the parser's nodes are turned into
:class:`Located` values instead of bare dicts. Scalars follow the core schema of YAML
1.2: ``true`` and ``false`` are the only booleans (``off``, ``no`` and ``y`` are words),
``0o17`` is octal and ``017`` is seventeen. Duplicate keys are problems, as Kubernetes
has it; merge keys (``<<``) work as in kubectl. Aliases may not blow a small file up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from labnet.scenario.problems import Place, Problems

MAX_NODES = 200_000  # after aliases are expanded
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}


class _Loader(yaml.CSafeLoader):
    """The C parser without YAML 1.1's ideas of what a plain scalar is."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 (read by the base class)


@dataclass(frozen=True, slots=True)
class Located:
    """A value and where it begins; mappings and lists hold ``Located`` values."""

    value: dict[str, Located] | list[Located] | str | int | float | bool | None
    place: Place
    keys: dict[str, Place] | None = None  # where each key of a mapping stands

    def plain(self) -> Any:
        """Return the value as ``json.loads`` would have made it."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value

    def get(self, *path: str | int) -> Located | None:
        """Return the value at ``path`` below this one, None where there is none."""
        here: Located | None = self
        for step in path:
            inner = here.value if here else None
            if isinstance(inner, dict) and isinstance(step, str):
                here = inner.get(step)
            elif isinstance(inner, list) and isinstance(step, int) and step < len(inner):
                here = inner[step]
            else:
                return None
        return here


def documents(text: str, source: str, problems: Problems) -> list[Located]:
    """Return the non-empty documents of ``text``; what cannot be read is a problem."""
    return list(_documents(text, source, problems))


def _documents(text: str, source: str, problems: Problems) -> Iterator[Located]:
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            located = _Reader(source, problems).read(node)
            if located.value is not None:
                yield located
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(source, mark.line + 1, mark.column + 1) if mark else Place(source, 1, 1)
        problems.add(place, f"not YAML: {error.problem or error.context}")
    except (yaml.YAMLError, RecursionError) as error:
        problems.add(Place(source, 1, 1), f"not YAML: {str(error).splitlines()[0]}")


class _Reader:
    """Turns one document's nodes into Located values."""

    def __init__(self, source: str, problems: Problems) -> None:
        self._source = source
        self._problems = problems
        self._left = MAX_NODES
        self._open: set[int] = set()

    def read(self, node: yaml.Node) -> Located:
        place = self._place(node)
        self._left -= 1
        if self._left < 0 or id(node) in self._open:
            if self._left >= -1:
                self._problems.add(place, "aliases make this document endless or too large")
            return Located(None, place)
        self._open.add(id(node))
        try:
            return self._read(node, place)
        finally:
            self._open.discard(id(node))

    def _read(self, node: yaml.Node, place: Place) -> Located:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return Located([self.read(item) for item in node.value], place)
        assert isinstance(node, yaml.ScalarNode)
        return Located(self._scalar(node, place), place)

    def _scalar(self, node: yaml.ScalarNode, place: Place) -> str | int | float | bool | None:
        if node.style:  # quoted or a block: always text
            return str(node.value)
        value = _plain_scalar(node.value)
        if isinstance(value, float) and _SPECIAL.fullmatch(node.value):
            self._problems.add(place, f"{node.value} has no JSON form; write a number or quote it")
        return value

    def _mapping(self, node: yaml.MappingNode, place: Place) -> Located:
        items: dict[str, Located] = {}
        keys: dict[str, Place] = {}
        merged: list[Located] = []
        for key_node, value_node in node.value:
            at = self._place(key_node)
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                self._problems.add(at, "a key must be a plain word, not a mapping or a list")
            elif key == "<<" and not key_node.style:
                merged.append(self.read(value_node))
            elif key in items:
                self._problems.add(
                    at, f'key "{key}" stands here twice (first in line {keys[key].line})'
                )
            else:
                items[key], keys[key] = self.read(value_node), at
        for source in merged:
            self._merge(source, items, keys)
        return Located(items, place, keys)

    def _merge(self, source: Located, items: dict[str, Located], keys: dict[str, Place]) -> None:
        for one in source.value if isinstance(source.value, list) else [source]:
            if not isinstance(one.value, dict):
                self._problems.add(one.place, "<< takes a mapping or a list of mappings")
                continue
            for key, item in one.value.items():
                if key not in items:
                    items[key], keys[key] = item, (one.keys or {}).get(key, one.place)

    def _place(self, node: yaml.Node) -> Place:
        return Place(self._source, node.start_mark.line + 1, node.start_mark.column + 1)


def _plain_scalar(text: str) -> str | int | float | bool | None:
    """Return what an unquoted scalar means in the core schema of YAML 1.2."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


def scalar(text: str, place: Place) -> Located:
    """Return ``text`` of a command-line option as the scalar it would be in YAML."""
    return Located(_plain_scalar(text), place)
