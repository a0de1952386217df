"""The same table of packets, sent through a real kernel.

If the model and the kernel disagree about a row, one of them is wrong about what the
rules do; both are held to what the table says.
"""

from __future__ import annotations

import pytest

from labnet.kernel.netfilter import LinuxNetfilter
from labnet.node.kube_proxy.program import program
from labnet.proxy.iptables.planner import Style
from tests.flow.cluster import PLACES, ROWS, SLICES, A, R, Row, endpoints, rules
from tests.flow.wire import Wire, build, serve

pytestmark = [pytest.mark.netns, pytest.mark.iptables]

TRIES = 60  # of two endpoints one is missed with a chance of 2^-60


@pytest.mark.usefixtures("own_netns")
@pytest.mark.parametrize("style", ["current", "v1.2"])
def test_every_row_of_the_table(style: Style) -> None:
    wire = build()
    serve(wire)
    with LinuxNetfilter() as kernel:
        program(rules(style), kernel)

    wrong = [
        f"{row}: {seen} instead of {wanted}"
        for row in ROWS
        if row.to != "-"
        and (seen := seen_by(wire, row, row.expected(style))) != (wanted := row.expected(style))
    ]

    assert wrong == []


@pytest.mark.usefixtures("own_netns")
@pytest.mark.parametrize("style", ["current", "v1.2"])
def test_a_client_stays_with_its_endpoint_until_that_goes(style: Style) -> None:
    wire = build()
    serve(wire)
    with LinuxNetfilter() as kernel:
        program(rules(style), kernel)
        first = {wire.ask("b", "10.96.0.75", 80)[0] for _ in range(30)}
        assert len(first) == 1

        other = {"a": R, "r": A}[first.copy().pop()]
        slices = [s for s in SLICES if s["metadata"]["name"] != "sticky-x"]
        program(rules(style, [*slices, endpoints("sticky", other)]), kernel)
        assert {wire.ask("b", "10.96.0.75", 80)[0] for _ in range(5)} == {"a", "r"} - first


def seen_by(wire: Wire, row: Row, expected: tuple[str, bool]) -> tuple[str, bool]:
    """Ask until everybody who should answer has; return who did and with what source."""
    target, _, protocol = row.destination.partition("/")
    address, _, port = target.partition(":")
    names: set[str] = set()
    sources: set[str] = set()
    for _ in range(TRIES):
        name, source = wire.ask(row.source, address, int(port), protocol or "tcp")
        names.add(name)
        sources.add(source)
        if name in ("REJECT", "DROP") or names == set(expected[0].split()):
            break
    if names <= {"REJECT", "DROP"}:
        return " ".join(names), False
    # A node that is masqueraded towards another node keeps its own address.
    foreign = sources - {PLACES[row.source]}
    return " ".join(sorted(names)), bool(foreign) and (row.source == "node" or foreign == sources)
