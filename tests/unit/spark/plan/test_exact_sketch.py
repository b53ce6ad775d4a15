"""A sketch of totals says what a sketch of the records says, with certain shares."""

from __future__ import annotations

from datetime import timedelta

from sublet.decisions.load.heavy_keys import COUNTERS
from sublet.decisions.load.sketch import PeakSecond
from sublet.operate.rules.hot_shards import key_shares
from sublet.protocol.shard import FULL_RANGE, HashKeyRange
from sublet.spark.plan.exact_sketch import ExactSketching, KeyTotal

from tests.doubles.traffic import NOW, Traffic, sketch_of


def test_exact_sketch_equals_a_workers_full_count() -> None:
    """A few records a page, which a worker counts in full."""
    counted = sketch_of("0", [Traffic("a", 4, 100), Traffic("b", 3, 300)], seconds=2)
    made = ExactSketching("0", FULL_RANGE)
    made.add(KeyTotal("a", None, 8 * 101, 8, 8, 0))
    made.add(KeyTotal("b", None, 6 * 301, 6, 6, 0))
    for second in range(2):
        made.add_second(PeakSecond(NOW + timedelta(seconds=second), 7, 4 * 101 + 3 * 301))
    exact = made.sketch(counted.since, counted.until)
    assert (exact.keys, exact.buckets, exact.load) == (counted.keys, counted.buckets, counted.load)
    assert [share.at_least for share in key_shares(exact)] == [share.at_most for share in key_shares(exact)]


def test_exact_sketch_keeps_the_heaviest_keys() -> None:
    made = ExactSketching("0", FULL_RANGE)
    for number in range(COUNTERS + 50):
        made.add(KeyTotal(f"key-{number}", None, 1000 + number, 1, 1, 0))
    found = made.sketch(NOW, NOW)
    assert len(found.keys) == COUNTERS
    assert found.keys[0].name == f"key-{COUNTERS + 49}"
    assert found.missed == 1049 + 1000 + 49
    assert found.missed <= found.load / (COUNTERS + 1)


def test_sketch_counts_bytes_by_how_they_were_placed() -> None:
    made = ExactSketching("0", HashKeyRange(0, 9))
    made.add(KeyTotal("a", "7", 100, 2, 0, 100))
    made.add(KeyTotal("a", None, 50, 1, 1, 0))
    made.add(KeyTotal(None, None, 10, 1, 1, 0))
    found = made.sketch(NOW, NOW)
    assert (found.explicit, found.elsewhere, found.keyless, found.aggregated) == (100, 1099, 1059, 100)
