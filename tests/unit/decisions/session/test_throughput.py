"""A lease's throughput: KCL's moving average."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sublet.decisions.session.throughput import Throughput
from sublet.testing.memory.clock import BEGINNING

SECOND = timedelta(seconds=1)
INTERVAL = 3 * SECOND


@pytest.mark.parametrize(("before", "expected"), [(None, 2.0), (10.0, 6.0), (0.0, 1.0)])
def test_an_interval_weighs_as_much_as_all_before_it(before: float | None, expected: float) -> None:
    measured = Throughput(before, 1_000, BEGINNING).after(1_000 + 2 * 3 * 1024, BEGINNING + INTERVAL, INTERVAL)
    assert measured == Throughput(expected, 1_000 + 2 * 3 * 1024, BEGINNING + INTERVAL)


def test_a_quiet_lease_brings_less_and_less() -> None:
    once = Throughput(8.0, 0, BEGINNING).after(0, BEGINNING + INTERVAL, INTERVAL)
    assert once.after(0, BEGINNING + 2 * INTERVAL, INTERVAL).kib_per_second == 2.0


def test_within_an_interval_it_stays_as_it_is() -> None:
    before = Throughput(8.0, 0, BEGINNING)
    assert before.after(99_999, BEGINNING + INTERVAL - SECOND, INTERVAL) is before
