"""Which sketches count, of those that are stored."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from sublet.decisions.load.sketch_places import FORGOTTEN_AFTER, SketchPlace, fresh, placed

from tests.doubles.traffic import NOW, Traffic, sketch_of

SKETCH = replace(sketch_of("shardId-0", [Traffic("key", 10, 100)]), until=NOW)
HOT = sketch_of("shardId-0", [Traffic("key", 900, 1000)])


@pytest.mark.parametrize(("age", "counts"), [(FORGOTTEN_AFTER - timedelta.resolution, True), (FORGOTTEN_AFTER, False)])
def test_a_sketch_is_forgotten_after_an_hour(age: timedelta, counts: bool) -> None:
    assert list(fresh([SKETCH], NOW + age)) == (["shardId-0"] if counts else [])


def test_a_hot_shard_s_sketch_takes_a_free_place_and_leaves_the_others_theirs() -> None:
    beside = SketchPlace(0, "shardId-1", HOT.heat, NOW)
    own = SketchPlace(1, "shardId-0", round(HOT.heat, 3), NOW)
    assert placed([beside], HOT, NOW) == (own, (beside, own))


def test_later_sketch_of_a_shard_counts() -> None:
    later = replace(SKETCH, until=NOW + timedelta(minutes=1))
    for stored in ([SKETCH, later], [later, SKETCH]):
        assert fresh(stored, later.until) == {"shardId-0": later}
