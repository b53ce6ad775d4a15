"""A worker stores the sketch of a hot shard in the session that read it, at little cost and without harm to the
session.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from sublet.decisions.load.sketch import ShardSketch
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.decisions.session.window import SessionOutcome
from sublet.engine.session.hot_shard_sketch import SessionSketch
from sublet.errors import LeaseTableAccessDenied, LeaseTableUnavailable
from sublet.handler import Batch
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.records import Page
from sublet.protocol.shard import FULL_RANGE
from sublet.testing.memory.stores import MemorySketchStore

from tests.doubles.engine_world import CONTINUOUS, MINUTE, NO_WAITING, SECOND, SHARD, EngineWorld


def a_world(**changes: Any) -> tuple[EngineWorld, MemorySketchStore]:
    world, store = EngineWorld(replace(NO_WAITING, **changes)), MemorySketchStore(with_names=True)
    world.ports_with = {"sketches": store}
    return world, store


def test_a_hot_shard_s_sketch_is_stored_when_its_session_ends() -> None:
    world, store = a_world()
    world.shards.put_all([("big", b"x" * 100)] * 400 + [("small", b"y")] * 300)
    world.window()
    [found] = store.sketches()
    assert (found.shard_id, found.peaks[0].records) == (SHARD, 700)
    assert [key.name for key in found.keys] == ["big", "small"]
    assert len(world.handler.finished) == 700


def test_a_cool_shard_s_is_not() -> None:
    world, store = a_world()
    world.shards.put_all([("big", b"x")] * 400)
    world.window()
    assert store.sketches() == ()


def test_sketch_includes_filtered_records() -> None:
    """They use the shard's quota all the same."""
    world, store = a_world(filter_criteria='{"Filters": [{"Pattern": "{\\"data\\": {\\"a\\": [1]}}"}]}')
    world.shards.put_all([("big", b'{"a": 2}')] * 700)
    world.window()
    assert not world.handler.finished
    assert [key.name for sketch in store.sketches() for key in sketch.keys] == ["big"]


def test_a_long_window_stores_one_every_five_minutes() -> None:
    world, store = a_world()
    world.settings = CONTINUOUS
    kept: list[ShardSketch] = []
    keep = store.keep

    class Watched:
        def keep(self, sketch: ShardSketch) -> bool:
            kept.append(sketch)
            return keep(sketch)

        sketches = store.sketches

    world.ports_with = {"sketches": Watched()}
    for minute in range(12):
        world.at(minute * MINUTE + SECOND, lambda: world.shards.put_all([("big", b"x")] * 600))
    world.window(lasts=12 * MINUTE)
    assert 2 <= len(kept) <= 3
    assert all(later.since >= earlier.until - SECOND for earlier, later in pairwise(kept))
    [found] = store.sketches()
    assert len(found.peaks) == 12
    assert abs(found.records - 7200) < 1500


def test_a_store_that_refuses_costs_one_warning_and_no_record() -> None:
    world, _ = a_world()

    class Refusing:
        def keep(self, sketch: ShardSketch) -> bool:
            raise LeaseTableAccessDenied(f"no permission to write {sketch.shard_id}")

        def sketches(self) -> tuple[ShardSketch, ...]:
            return ()

    world.ports_with = {"sketches": Refusing()}
    world.shards.put_all([("big", b"x")] * 700)
    world.window()
    assert len(world.handler.finished) == 700
    assert [line for line in world.log.lines if "sketch" in str(line)]


def test_sketch_store_error_costs_one_warning_and_no_record() -> None:
    world, _ = a_world()

    class Broken:
        def keep(self, sketch: ShardSketch) -> bool:
            raise KeyError(sketch.shard_id)

        def sketches(self) -> tuple[ShardSketch, ...]:
            return ()

    world.ports_with = {"sketches": Broken()}
    world.shards.put_all([("big", b"x")] * 700)
    report = world.window()
    assert len(world.handler.finished) == 700
    assert [lease.outcome for lease in report.leases] == [SessionOutcome.CAUGHT_UP]
    assert [line for line in world.log.lines if "KeyError" in str(line)]


def test_a_store_that_does_not_answer_holds_a_session_up_for_two_seconds() -> None:
    world, _ = a_world()

    class Silent:
        def keep(self, sketch: ShardSketch) -> bool:
            return bool(sketch) and world.tasks.signal().wait(timedelta(hours=1))

        def sketches(self) -> tuple[ShardSketch, ...]:
            return ()

    world.ports_with = {"sketches": Silent()}
    world.shards.put_all([("big", b"x")] * 700)
    before = world.clock.steady()
    world.window()
    assert len(world.handler.finished) == 700
    assert world.clock.steady() - before < 15 * SECOND


def test_window_runs_without_a_sketch_store() -> None:
    world = EngineWorld(NO_WAITING)
    batches: list[Batch] = []
    world.handler.script = batches.append
    world.shards.put_all([("big", b"x")] * 700)
    world.window(lasts=timedelta(seconds=10))
    assert batches


@pytest.mark.parametrize("is_answer_lost", [False, True])
def test_session_that_ends_twice_stores_one_sketch(is_answer_lost: bool) -> None:
    """As one whose lease was kept for the next window, and is given back after all; also if the first answer was
    lost.
    """
    world, _ = a_world()
    kept: list[ShardSketch] = []

    class Store:
        def keep(self, sketch: ShardSketch) -> bool:
            kept.append(sketch)
            if is_answer_lost:
                raise LeaseTableUnavailable("timed out")
            return True

    world.ports_with = {"sketches": Store()}
    world.shards.put_all([("big", b"x")] * 700)
    reader = world.ports.stream.reader(SHARD, ReadPosition(IteratorType.TRIM_HORIZON))
    reader.open()
    page = reader.read(1000)
    assert isinstance(page, Page)
    sketch = SessionSketch(SHARD, FULL_RANGE, world.ports)
    sketch.turn(page)
    sketch.see(deaggregate(page.records, None).user_records)
    sketch.store(is_last=True)
    sketch.store(is_last=True)
    assert len(kept) == 1
