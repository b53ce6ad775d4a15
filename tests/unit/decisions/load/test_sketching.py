"""A worker's sketch is true of the records that came, sampled or not."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from sublet.decisions.load.sketch import MINUTES_MAX, PeakSecond, ShardSketch, bucket_of, merged, worst_seconds
from sublet.decisions.load.sketching import ENOUGH, SAMPLES, Sketching
from sublet.operate.rules.hot_shards import key_shares
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.records import Page, StreamRecord, UserRecord
from sublet.protocol.shard import FULL_RANGE, HashKeyRange

from tests.doubles.traffic import NOW, Traffic, sketch_of


def test_few_records_are_all_counted() -> None:
    found = sketch_of("0", [Traffic("a", 4, 100), Traffic("b", 3, 300)], seconds=30)
    assert (found.records, found.bytes, found.is_sampled) == (210, 30 * (4 * 101 + 3 * 301), False)
    assert {key.name: (key.records, key.bytes) for key in found.keys} == {
        "a": (120, 12_120),
        "b": (90, 27_090),
    }
    assert sum(found.buckets) == found.load


@pytest.mark.parametrize("seed", range(8))
def test_a_sample_s_bounds_hold(seed: int) -> None:
    """A key with 30% of the records, in pages of hundreds. A thousandth of all bounds may fail, and these do not."""
    made, chance = Sketching("0", FULL_RANGE, Random(seed), NOW), Random(seed + 100)
    for second in range(500):
        arrived = NOW + timedelta(seconds=second)
        keys = ["big" if chance.random() < 0.3 else f"k{chance.randrange(5000)}" for _ in range(400)]
        records = tuple(StreamRecord("1", bytes(chance.randrange(20)), key, arrived) for key in keys)
        made.turn(Page(records, sum(len(record.data) for record in records), 0))
        made.see([UserRecord(record.data, record.partition_key, 0, record) for record in records])
    found = made.sketch(NOW)
    [top, *_] = key_shares(found)
    assert found.is_sampled
    assert top.name == "big"
    assert top.at_least <= 0.3 <= top.at_most
    assert top.at_most - top.at_least < 0.15
    assert found.records == pytest.approx(200_000, rel=0.1)
    assert found.worst is not None
    assert found.worst.records == 400


def test_the_first_pages_are_counted_more_densely_than_the_late_ones() -> None:
    """A window of a minute may have few pages, and one that lasts gets five a second."""
    made, counted = Sketching("0", FULL_RANGE, Random(5), NOW), list[int]()
    for page in range(2 * ENOUGH):
        arrived = NOW + timedelta(seconds=page)
        records = [StreamRecord("1", b"x", f"{page}-{at}", arrived) for at in range(160)]
        made.turn(Page(tuple(records), 160, 0))
        made.see([UserRecord(record.data, record.partition_key, 0, record) for record in records])
        counted.append(made._counted_in_page)
    assert sum(counted[:50]) > 50 * SAMPLES / 2
    assert sum(counted[ENOUGH:]) < 2 * ENOUGH
    assert made.sketch(NOW).records == pytest.approx(2 * ENOUGH * 160, rel=0.1)


@pytest.mark.parametrize("keys", [SAMPLES, 32, 64, 250])
def test_many_keys_in_turns_are_not_taken_for_one_heavy_key(keys: int) -> None:
    """A sample at fixed distances would meet the same key each time."""
    found = sketch_of("0", [Traffic("user", 1000, 100, keys=keys)])
    assert found.is_sampled
    assert max(share.at_least for share in key_shares(found)) < 0.1


def test_the_worst_second_of_each_minute_by_arrival() -> None:
    """One page of two minutes, read at once."""
    counts = [10, 500, 20, *([1] * 57), 5, 900, *([1] * 10)]
    arrivals = [NOW + timedelta(seconds=at) for at, count in enumerate(counts) for _ in range(count)]
    made = Sketching("0", FULL_RANGE, Random(0), NOW)
    for at in range(0, len(arrivals), SAMPLES):
        records = tuple(StreamRecord("1", b"1234567890", "k", when) for when in arrivals[at : at + SAMPLES])
        made.turn(Page(records, 10 * len(records), 0))
    assert made.sketch(NOW).peaks == (
        PeakSecond(NOW + timedelta(seconds=1), 500, 5500),
        PeakSecond(NOW + timedelta(seconds=61), 900, 9900),
    )


def test_a_heavy_record_counts_in_its_own_second() -> None:
    """In a page of two seconds, and of few records."""
    made = Sketching("0", FULL_RANGE, Random(0), NOW)
    later = NOW + timedelta(seconds=1)
    light, heavy = StreamRecord("1", b"1" * 9, "k", NOW), StreamRecord("2", b"1" * 999_999, "k", later)
    made.turn(Page((light, heavy), 1_000_008, 0))
    assert made.sketch(NOW).peaks == (PeakSecond(later, 1, 1_000_000),)


def test_a_long_catch_up_keeps_the_latest_minutes() -> None:
    made = Sketching("0", FULL_RANGE, Random(0), NOW)
    for minute in range(50):
        for second in range(0, 60, 2):
            arrived = NOW + timedelta(minutes=minute, seconds=second)
            made.turn(Page((StreamRecord("1", bytes(minute), "k", arrived),), minute, 0))
    peaks = made.sketch(NOW).peaks
    assert [peak.bytes for peak in peaks] == [minute + 1 for minute in range(50 - MINUTES_MAX, 50)]


def test_sketch_counts_bytes_by_place() -> None:
    half = HashKeyRange(0, FULL_RANGE.ending // 2)
    outside = next(f"k{n}" for n in range(99) if hash_key(f"k{n}", None) not in half)
    found = sketch_of(
        "0",
        [
            Traffic(outside, 1, 50),
            Traffic(outside, 1, 60, explicit=7, is_aggregated=True),
            Traffic(None, 1, 70),
        ],
        seconds=1,
        hash_key_range=half,
    )
    assert found.buckets[0] == found.explicit == found.aggregated == 60 + len(outside)
    assert found.elsewhere == 50 + len(outside) + 1049
    assert found.keyless == 70 + 1049


def test_sketches_are_merged() -> None:
    one = sketch_of("0", [Traffic("a", 10, 100)], seconds=10)
    two = sketch_of("0", [Traffic("a", 3, 100), Traffic("b", 900, 10)], seconds=10, dropped=4)
    both = merged(one, two)
    assert (both.records, both.bytes, both.load) == (
        one.records + two.records,
        one.bytes + two.bytes,
        one.load + two.load,
    )
    assert (both.heat, both.dropped, both.is_sampled) == (two.heat, 4, True)
    assert {key.name for key in both.keys} == {"a", "b"}


def test_bucket_is_none_outside_the_range() -> None:
    assert bucket_of(9, HashKeyRange(10, 20)) is None
    assert bucket_of(21, HashKeyRange(10, 20)) is None
    assert bucket_of(20, HashKeyRange(10, 20)) == 58
    assert bucket_of(2**128 - 1, FULL_RANGE) == 63


def test_sketch_of_no_records_is_empty() -> None:
    found = ShardSketch("0", NOW, NOW)
    assert (found.heat, found.worst, found.at_least(0)) == (0, None, 0)
    assert worst_seconds(()) == ()
