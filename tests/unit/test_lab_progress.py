"""Steps of `up` are measured and reported as they happen."""

from __future__ import annotations

import pytest

from labnet.clock import FakeClock
from labnet.lab.progress import Progress, Span, Timeline


def test_a_step_is_reported_at_both_ends_and_measured() -> None:
    seen: list[Progress] = []
    clock = FakeClock()
    timeline = Timeline(clock, seen.append, origin=0.0)
    clock.advance(1.0)

    with timeline.step("etcd"):
        clock.advance(0.5)

    assert seen == [Progress("etcd", "started", 1.0), Progress("etcd", "done", 1.5)]
    assert timeline.spans == [Span("etcd", 1.0, 1.5)]
    assert timeline.spans[0].seconds == 0.5


def test_a_step_that_fails_says_so() -> None:
    seen: list[Progress] = []
    timeline = Timeline(FakeClock(), seen.append, origin=0.0)

    with pytest.raises(OSError, match="no"), timeline.step("etcd"):
        raise OSError("no")

    assert [one.state for one in seen] == ["started", "failed"]
    assert timeline.spans == []
