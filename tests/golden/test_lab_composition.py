"""The first scenario's hosts and components, as PID 1 is asked to make them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from labnet.lab.compose import composition
from labnet.scenario import load

SCENARIO = Path(__file__).parents[2] / "scenarios" / "my-nginx.yaml"
GOLDEN = Path(__file__).parent / "lab" / "my-nginx.json"


def test_my_nginx_is_composed_of_these_hosts_and_components(update_golden: bool) -> None:
    found = composition(load(SCENARIO), "/usr/bin/etcd")
    text = json.dumps(dataclasses.asdict(found), indent=2, default=str) + "\n"
    if update_golden:
        GOLDEN.write_text(text)

    assert text == GOLDEN.read_text()
