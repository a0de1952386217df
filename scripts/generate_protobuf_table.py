"""Write labnet/api/data/protobuf.json.gz from the Kubernetes API's sources.

    .venv/bin/python scripts/generate_protobuf_table.py K8S_IO_API K8S_IO_APIMACHINERY

The arguments are checkouts (or bare clones) of kubernetes/api and kubernetes/apimachinery
(Apache-2.0). Only facts are taken: for each message the number, JSON name and type of its
fields, and whether the zero value is written out in JSON. A field of the Go types is

    Replicas *int32 `json:"replicas,omitempty" protobuf:"varint,1,opt,name=replicas"`

and the .proto file next to it tells the field's type without Go's aliases.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "labnet/api/data/protobuf.json.gz"
PACKAGES = [
    "apps/v1",
    "authentication/v1",
    "authorization/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "coordination/v1",
    "core/v1",
    "discovery/v1",
    "events/v1",
    "networking/v1",
    "policy/v1",
    "rbac/v1",
    "scheduling/v1",
    "storage/v1",
]
MACHINERY = ("pkg/apis/meta/v1", "pkg/runtime", "pkg/api/resource", "pkg/util/intstr")
MESSAGE = re.compile(r"^message (\w+) \{(.*?)^\}", re.S | re.M)
FIELD = re.compile(
    r"^  (?:(optional|repeated|required) )?(map<string, [\w.]+>|[\w.]+) (\w+) = (\d+);", re.M
)
STRUCT = re.compile(r"^type (\w+) struct \{(.*?)^\}", re.S | re.M)
MEMBER = re.compile(r'^\s+(?:\w+\s+)?([*\[\]\w.]+)\s+`(.*protobuf:"[^"]+".*)`', re.M)
NAMED = re.compile(r"^type (\w+) ([\[\]\w.]+)$", re.M)


def show(repository: str, path: str) -> str:
    """Return a file of the newest commit, "" where there is none."""
    command = ["git", "-C", repository, "show", f"HEAD:{path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def go_files(repository: str, package: str) -> str:
    """Return the text of a package's hand-written Go types."""
    command = ["git", "-C", repository, "ls-tree", "--name-only", "HEAD", f"{package}/"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    wanted = (n for n in names if n.endswith(".go") and "zz_" not in n and ".pb." not in n)
    return "\n".join(show(repository, n) for n in wanted if "_test" not in n)


def members(go: str) -> dict[str, dict[int, tuple[str, bool]]]:
    """Return struct → field number → (JSON name or "" for inline, zero value is kept)."""
    found: dict[str, dict[int, tuple[str, bool]]] = {}
    for struct, body in STRUCT.findall(go):
        fields = found.setdefault(struct, {})
        for go_type, tags in MEMBER.findall(body):
            tag = dict(re.findall(r'(\w+):"([^"]*)"', tags))
            if "json" not in tag:  # Time, Quantity: written by hand, decoded by hand
                continue
            number = int(tag["protobuf"].split(",")[1])
            name, *options = tag["json"].split(",")
            kept = go_type.startswith("*") or not {"omitempty", "omitzero"} & set(options)
            fields[number] = (name, kept)
    return found


def messages(repository: str, package: str, prefix: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield each message's full name and its fields: [number, name, type, keep zero]."""
    proto = re.sub(r"//.*", "", show(repository, f"{package}/generated.proto"))
    tags = members(go_files(repository, package))
    for name, body in MESSAGE.findall(proto):
        fields = []
        for label, kind, field, number in FIELD.findall(body):
            json_name, kept = tags.get(name, {}).get(int(number), (field, False))
            fields.append([int(number), json_name, _type(label, kind, prefix), int(kept)])
        yield prefix + name, fields


def _type(label: str, kind: str, prefix: str) -> str:
    """Return ``string``, ``[]string``, ``{}string``, or the same with a message's name."""
    if kind.startswith("map<"):
        return "{}" + _full(kind[len("map<string, ") : -1], prefix)
    return ("[]" if label == "repeated" else "") + _full(kind, prefix)


def _full(kind: str, prefix: str) -> str:
    if kind.startswith("."):
        return kind.removeprefix(".k8s.io.")
    return prefix + kind if kind[0].isupper() else kind


def main() -> int:
    """Write the table."""
    api, machinery = sys.argv[1:3]
    table: dict[str, list[Any]] = {}
    for package in PACKAGES:
        table |= messages(api, package, f"api.{package.replace('/', '.')}.")
    for package in MACHINERY:
        table |= messages(machinery, package, f"apimachinery.{package.replace('/', '.')}.")
    table = {name: table[name] for name in sorted(table) if not name.endswith("List")}
    text = json.dumps(table, separators=(",", ":"))
    TARGET.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(
        f"{TARGET.name}: {len(table)} messages, {len(text)} bytes, {TARGET.stat().st_size} packed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
