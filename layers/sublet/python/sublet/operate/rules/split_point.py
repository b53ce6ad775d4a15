"""Where to split a shard so that its halves bring the same load: the weighted median of its sketch.

A split moves the hash keys from the new starting hash key on to the second child. All records of a partition key have
one hash key, so no split divides a key's load: heavy keys are points, and everything else is spread evenly over each
bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from sublet.decisions.load.sketch import BUCKETS, ShardSketch, bucket_of
from sublet.protocol.shard import HashKeyRange


class SplitPoint(Struct, frozen=True):
    """`at`: Kinesis' NewStartingHashKey. `below`, `above`: the expected shares of the two children."""

    at: int
    below: float
    above: float

    @property
    def larger(self) -> float:
        return max(self.below, self.above)


class _HashKeySpan(Struct, frozen=True):
    """Hash keys from `starting` to before `after`, over which `load` is spread evenly."""

    starting: int
    after: int
    load: float


def split_point(sketch: ShardSketch) -> SplitPoint | None:
    """The best place to split. None if no load is known for any hash key, or the range has a single hash key."""
    stretches = _stretches(sketch)
    total = sum(each.load for each in stretches)
    if total <= 0 or sketch.hash_key_range.starting == sketch.hash_key_range.ending:
        return None
    below = [0.0, *accumulate(each.load for each in stretches)]
    candidates = [
        SplitPoint(at, under / total, 1 - under / total)
        for stretch, before in zip(stretches, below, strict=False)
        for at, under in _candidates(stretch, before, total / 2)
        if sketch.hash_key_range.starting < at <= sketch.hash_key_range.ending
    ]
    return min(candidates, key=lambda each: (round(each.larger, 9), each.at), default=None)


def _candidates(stretch: _HashKeySpan, before: float, half: float) -> Iterator[tuple[int, float]]:
    """Hash keys at which to try a split, each with the load below it: where the stretch begins, and where the median is
    in it.
    """
    yield stretch.starting, before
    width = stretch.after - stretch.starting
    if width > 1 and before < half < before + stretch.load:
        inside = min(max(int(width * ((half - before) / stretch.load)), 1), width - 1)
        yield stretch.starting + inside, before + stretch.load * inside / width


def _stretches(sketch: ShardSketch) -> Sequence[_HashKeySpan]:
    """The shard's range in order: each heavy key by itself, and between them the rest of each bucket's load."""
    starting, ending = sketch.hash_key_range
    points = _points(sketch)
    stretches: list[_HashKeySpan] = []
    for number, load in enumerate(sketch.buckets):
        first, after = _bounds(number, sketch.hash_key_range)
        inside = sorted(place for place in points if first <= place < after)
        spread = max(0.0, float(load) - sum(points[place] for place in inside))
        at = first
        for place in inside:
            stretches += [
                _part(at, place, first, after, spread),
                _HashKeySpan(place, place + 1, float(points[place])),
            ]
            at = place + 1
        stretches.append(_part(at, after, first, after, spread))
    return [each for each in stretches if each.starting < each.after and starting <= each.starting <= ending]


def _part(starting: int, after: int, first: int, end: int, load: float) -> _HashKeySpan:
    return _HashKeySpan(starting, after, load * (after - starting) / (end - first) if end > first else 0.0)


def _points(sketch: ShardSketch) -> dict[int, int]:
    """The load of the heavy keys by place."""
    points: dict[int, int] = {}
    for key in sketch.keys:
        if bucket_of(key.place, sketch.hash_key_range) is not None:
            points[key.place] = points.get(key.place, 0) + key.load
    return points


def _bounds(number: int, hash_key_range: HashKeyRange) -> tuple[int, int]:
    """The first hash key of a bucket, and the first after it."""
    starting, ending = hash_key_range
    width = ending - starting + 1
    first, after = (-(-width * each // BUCKETS) for each in (number, number + 1))
    return starting + first, starting + after
