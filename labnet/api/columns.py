"""The columns of each kind, and the text in each cell.

One entry per kind: a row of columns, each with a function from object and time to cell.
Columns of priority 1 appear with ``-o wide`` only. Names and texts are those of
Kubernetes' ``pkg/printers/internalversion/printers.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from labnet.api.duration import since
from labnet.api.meta import JsonObject, Object
from labnet.api.selectors import selector_terms

NONE = "<none>"
Cell = Callable[[Object, datetime], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    def definition(self) -> JsonObject:
        """Return the TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def path(*names: str, default: Any = "") -> Cell:
    """Return a cell that shows the field at ``names``, or ``default`` where it is not set."""

    def cell(obj: Object, _: datetime) -> Any:
        found = at(obj, *names)
        return default if found in (None, "") else found

    return cell


def at(value: Any, *names: str) -> Any:
    """Return the field at ``names``, None where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def age(obj: Object, now: datetime) -> str:
    """How long ago the object was created."""
    return since(at(obj, "metadata", "creationTimestamp"), now)


def joined(texts: Iterable[str]) -> str:
    """Return texts with commas between them, ``<none>`` for none."""
    return ",".join(texts) or NONE


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Return labels as ``a=b,c=d``, sorted; ``<none>`` for none."""
    return joined(f"{key}={value}" for key, value in sorted((labels or {}).items()))


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """Return a LabelSelector as kubectl shows it; ``<none>`` for one that is not set."""
    if selector is None or not selector:
        return NONE
    return joined(text for _, text in selector_terms(selector))


NAME = Column(
    "Name",
    path("metadata", "name"),
    format="name",
    description="Name must be unique within a namespace.",
)
AGE = Column("Age", age, description="Time since the object was created.")
CREATED = Column("Created At", path("metadata", "creationTimestamp"), type="date")
DEFAULT = (NAME, CREATED)
