"""Which sketches count, of those that are stored."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from sublet.decisions.sketch_places import FORGOTTEN_AFTER, fresh

from tests.doubles.traffic import NOW, Traffic, sketch_of

SKETCH = replace(sketch_of("shardId-0", [Traffic("key", 10, 100)]), until=NOW)


@pytest.mark.parametrize(
    ("age", "counts"), [(FORGOTTEN_AFTER - timedelta.resolution, True), (FORGOTTEN_AFTER, False)]
)
def test_a_sketch_is_forgotten_after_an_hour(age: timedelta, counts: bool) -> None:
    assert list(fresh([SKETCH], NOW + age)) == (["shardId-0"] if counts else [])


def test_of_two_sketches_of_a_shard_the_later_one_counts() -> None:
    later = replace(SKETCH, until=NOW + timedelta(minutes=1))
    for stored in ([SKETCH, later], [later, SKETCH]):
        assert fresh(stored, later.until) == {"shardId-0": later}
