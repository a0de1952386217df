"""Write labnet/api/data/definitions.jsonl.gz from the Kubernetes OpenAPI specification.

    .venv/bin/python scripts/generate_schema.py [--check]

The PyPI package kubernetes-validate (a development dependency, Apache-2.0) ships the
definitions of each Kubernetes version as JSON Schema. What labnet's kinds reach is
turned back into the component schemas that an API server publishes, one per line and in
order, so that ``labnet.api.openapi`` can splice documents without parsing. The
definitions of extensions/v1beta1, long gone from Kubernetes, are derived from apps/v1.
With ``--check`` nothing is written; exit code 1 says that the file is out of date.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

from labnet.api.kinds import KINDS

VERSION = "1.37"
TARGET = Path(__file__).parent.parent / "labnet/api/data/definitions.jsonl.gz"
REF = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
PACKAGES = {
    "": "core",
    "authentication.k8s.io": "authentication",
    "authorization.k8s.io": "authorization",
    "networking.k8s.io": "networking",
    "coordination.k8s.io": "coordination",
    "discovery.k8s.io": "discovery",
    "events.k8s.io": "events",
}
EXTRA = (
    META + "DeleteOptions",
    META + "Status",
    META + "WatchEvent",
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.api.core.v1.Binding",
)
BETA = {"io.k8s.api.apps.v1." + name for name in ("Deployment", "ReplicaSet", "RollingUpdateDep")}


def source() -> dict[str, Any]:
    """Return the definitions as kubernetes-validate ships them."""
    path = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{VERSION}.0-local"
    found: dict[str, Any] = json.loads((path / "_definitions.json").read_text())["$defs"]
    return found


def component(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema as an OpenAPI v3 schema: no null types, refs in allOf."""
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            out[key] = {name: component(_plain(name, s)) for name, s in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            out[key] = component(value)
        elif key == "oneOf":
            out[key] = [component(choice) for choice in value]
        elif key == "type" and isinstance(value, list):
            out[key] = next(t for t in value if t != "null")
        elif key == "$ref":
            out["allOf"] = [{"$ref": value.replace("#/$defs/", REF)}]
        else:
            out[key] = value
    return dict(sorted(out.items()))


def _plain(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Drop the enum of apiVersion and kind, which kubernetes-validate put there."""
    return {k: v for k, v in schema.items() if k != "enum" or name not in ("apiVersion", "kind")}


def references(line: str) -> set[str]:
    """Return the names of the components that ``line`` refers to."""
    return set(re.findall(rf'"{REF}([^"]+)"', line))


def roots() -> list[str]:
    """Return the definitions of every kind labnet serves, and its list."""
    names = list(EXTRA)
    for kind in KINDS:
        package = PACKAGES.get(kind.group, kind.group)
        names += [f"io.k8s.api.{package}.{kind.version}.{k}" for k in (kind.kind, kind.list_kind)]
    return names


def with_beta(lines: dict[str, str]) -> dict[str, str]:
    """Return ``lines`` and the extensions/v1beta1 forms of Deployment and ReplicaSet."""
    both = dict(lines)
    for name, line in lines.items():
        if any(name.startswith(kind) for kind in BETA):
            text = re.sub(
                r"io\.k8s\.api\.apps\.v1\.(Deployment|ReplicaSet|RollingUpdateDep)",
                r"io.k8s.api.extensions.v1beta1.\1",
                line,
            )
            schema = json.loads("{" + text + "}")
            renamed = next(iter(schema))
            # That version takes a selector from the template's labels when there is none.
            if "required" in schema[renamed]:
                schema[renamed]["required"] = [
                    name for name in schema[renamed]["required"] if name != "selector"
                ]
            for gvk in schema[renamed].get("x-kubernetes-group-version-kind", ()):
                gvk.update(group="extensions", version="v1beta1")
            both[renamed] = _line(renamed, schema[renamed])
    return both


def _line(name: str, schema: dict[str, Any]) -> str:
    return json.dumps({name: schema}, separators=(",", ":"), ensure_ascii=False)[1:-1]


def closure(lines: dict[str, str], names: list[str]) -> list[str]:
    """Return, sorted, ``names`` and everything they refer to that is defined."""
    found: set[str] = set()
    todo = [name for name in names if name in lines]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += references(lines[name])
    return sorted(found)


def generate() -> bytes:
    """Return the compressed file; the same input gives the same bytes."""
    raw = {name: _line(name, component(schema)) for name, schema in source().items()}
    lines = with_beta(raw)
    text = "\n".join(lines[name] for name in closure(lines, roots())) + "\n"
    return gzip.compress(text.encode(), 9, mtime=0)


def main() -> int:
    """Write the file, or with --check say whether it is current."""
    new = generate()
    if "--check" in sys.argv:
        current = TARGET.exists() and gzip.decompress(TARGET.read_bytes()) == gzip.decompress(new)
        return 0 if current else 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(new)
    print(f"{TARGET.name}: {len(gzip.decompress(new).splitlines())} definitions, {len(new)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
