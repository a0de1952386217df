"""The published JSON Schema and our walker over it agree with the reference library."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from labnet.scenario import schema
from labnet.scenario.problems import Problems
from labnet.scenario.yaml import documents

SCHEMA = json.loads(schema.text())
SOUND: dict[str, Any] = {
    "apiVersion": "labnet.dev/v1",
    "kind": "Lab",
    "metadata": {"name": "a"},
    "spec": {},
}
SPECS: list[Any] = [
    {},
    {"nodes": 3},
    {"nodes": 0},
    {"nodes": "3"},
    {"nodes": []},
    {"nodes": [{"name": "a"}]},
    {"nodes": [{"nam": "a"}]},
    {"nodes": [{"name": "a", "labels": {"x": 1}}]},
    {"nodes": [{"name": "a", "components": {"kubelet": False, "kube-proxy": "off"}}]},
    {"nodes": [{"name": "a", "components": {"kubelet": 0}}]},
    {"backend": {"type": "vxlan", "vni": 1}},
    {"backend": {"type": "gre"}},
    {"backend": {"vni": True}},
    {"nodePortRange": "1-2"},
    {"nodePortRange": "1 to 2"},
    {"controlPlane": {"nodeMonitorGrace": 2.5}},
    {"controlPlane": {"nodeMonitorGrace": 1}},
    {"pins": {"pods": {"a/b": ["10.0.0.1"]}}},
    {"pins": {"pods": {"a/b": "10.0.0.1"}}},
    {"unknown": 1},
    [],
]


@pytest.mark.parametrize("spec", SPECS, ids=json.dumps)
def test_our_walker_agrees_with_jsonschema(spec: object) -> None:
    document = {**SOUND, "spec": spec}
    problems = Problems()

    schema.check(documents(json.dumps(document), "x", problems)[0], problems)

    assert bool(problems.found) == (not Draft202012Validator(SCHEMA).is_valid(document))


def test_the_schema_itself_is_sound() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_uses_only_keywords_that_the_walker_knows() -> None:
    words = """$schema title description type additionalProperties required properties const
        enum format maxLength oneOf minimum maximum minItems maxItems items pattern"""

    def keywords(node: dict[str, Any]) -> set[str]:
        inner = [*node.get("properties", {}).values(), *node.get("oneOf", [])]
        inner += [
            node[k] for k in ("items", "additionalProperties") if isinstance(node.get(k), dict)
        ]
        return set(node).union(*map(keywords, inner)) if inner else set(node)

    assert keywords(SCHEMA) <= set(words.split())
