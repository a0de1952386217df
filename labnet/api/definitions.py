"""The Kubernetes schema on disk: 370 definitions, one per line, compressed.

Two readers: ``openapi`` splices whole lines into documents and never parses them;
``schema`` parses the few lines that a kind needs. The text (0.6 MB) is unpacked at first
use and kept; a parsed copy would take ten times that.
"""

from __future__ import annotations

import gzip
import re
from functools import cache
from pathlib import Path

_DATA = Path(__file__).with_name("data") / "definitions.jsonl.gz"
_REFERENCE = re.compile(rb'"#/components/schemas/([^"]+)"')


@cache
def lines() -> dict[str, bytes]:
    """Return each definition's name and its line: ``"name":{…}``."""
    packed = _DATA.read_bytes()
    found = gzip.decompress(packed).splitlines()
    return {line[1 : line.index(b'"', 1)].decode(): line for line in found}


def references(line: bytes) -> set[str]:
    """Return the names of the definitions that ``line`` refers to."""
    return {name.decode() for name in _REFERENCE.findall(line)}


def closure(roots: list[str]) -> list[str]:
    """Return, sorted, ``roots`` and everything they refer to."""
    known = lines()
    found: set[str] = set()
    todo = [name for name in roots if name in known]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(references(known[name]))
    return sorted(found)


_PACKAGES = {"": "core"}


def definition_name(api_version: str, kind: str) -> str:
    """Return e.g. ``io.k8s.api.apps.v1.Deployment``."""
    group, _, version = api_version.rpartition("/")
    package = _PACKAGES.get(group, group.partition(".")[0])
    return f"io.k8s.api.{package}.{version}.{kind}"
