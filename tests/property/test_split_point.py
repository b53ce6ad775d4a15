"""Whatever a sketch says: a split is inside the range, as even as its heavy keys allow, and its halves are true."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.load.heavy_keys import HeavyKey
from sublet.decisions.load.sketch import BUCKETS, ShardSketch, bucket_of
from sublet.operate.rules.split_point import split_point
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
ends = st.integers(0, HASH_KEY_MAX)
ranges = st.tuples(ends, ends).map(lambda two: HashKeyRange(min(two), max(two)))


@st.composite
def sketches(draw: st.DrawFn) -> tuple[ShardSketch, dict[int, int]]:
    """Of points, all of them known as heavy keys; and the points."""
    hash_key_range = draw(ranges)
    places = st.integers(hash_key_range.starting, hash_key_range.ending)
    points = draw(st.dictionaries(places, st.integers(1, 1000), max_size=30))
    buckets = [0] * BUCKETS
    for place, load in points.items():
        bucket = bucket_of(place, hash_key_range)
        assert bucket is not None
        buckets[bucket] += load
    keys = tuple(HeavyKey(place, place, load, 0, load, 1) for place, load in points.items())
    return ShardSketch("0", NOW, NOW, hash_key_range, keys=keys, buckets=tuple(buckets)), points


@given(sketches())
def test_the_split_is_the_most_even_one(drawn: tuple[ShardSketch, dict[int, int]]) -> None:
    sketch, points = drawn
    found = split_point(sketch)
    if not points or sketch.hash_key_range.starting == sketch.hash_key_range.ending:
        assert found is None
        return
    assert found is not None
    starting, ending = sketch.hash_key_range
    assert starting < found.at <= ending
    total = sum(points.values())
    below = sum(load for place, load in points.items() if place < found.at)
    assert abs(found.below - below / total) < 1e-6
    assert abs(found.below + found.above - 1) < 1e-9
    for place in (each + more for each in points for more in (0, 1)):
        if starting < place <= ending:
            under = sum(load for each, load in points.items() if each < place) / total
            assert found.larger <= max(under, 1 - under) + 1e-6


@given(ranges, st.lists(st.integers(0, 1000), min_size=BUCKETS, max_size=BUCKETS))
def test_spread_load_is_halved(hash_key_range: HashKeyRange, buckets: list[int]) -> None:
    """Where no key is heavy and the range is wide, the halves are even to a hash key."""
    found = split_point(ShardSketch("0", NOW, NOW, hash_key_range, buckets=tuple(buckets)))
    if hash_key_range.ending - hash_key_range.starting > 2**40 and any(buckets):
        assert found is not None
        assert found.larger < 0.501
