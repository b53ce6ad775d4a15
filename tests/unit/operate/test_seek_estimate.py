"""A seek's plan says what it repeats or skips, in time and in records: on streams whose records are known one by
one.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from sublet.decisions.session.read_position import ReadPosition
from sublet.errors import SeekRefused
from sublet.operate.memory_inspection import MemoryInspection
from sublet.operate.positions.planned_seek import PlannedSeek, carry_out, planned, seek_of
from sublet.operate.positions.seek import SeekRun
from sublet.operate.positions.seek_target import at_place, at_positions, shifted
from sublet.operate.positions.seek_time import place
from sublet.operate.positions.snapshots import snapshot_by_hand
from sublet.operate.rules.examination import Volume
from sublet.operate.rules.seek_estimate import CountedBy
from sublet.protocol.checkpoint import LATEST
from sublet.protocol.snapshot import Snapshot

from tests.doubles.engine_world import NO_WAITING, SHARD, EngineWorld

HOUR = timedelta(hours=1)
EVERY = timedelta(seconds=10)
"""Between two records."""


def stream_of_two_hours(split_at: timedelta | None = None) -> EngineWorld:
    """A record each ten seconds, all of them handled, and a split in between."""
    world = EngineWorld(NO_WAITING)
    began = world.clock.now()
    for number in range(2 * HOUR // EVERY):
        if split_at is not None and world.clock.now() - began == split_at:
            world.shards.split(SHARD)
        world.shards.put(f"key-{number}", b"x")
        world.clock.advance(EVERY)
    for _ in range(6):
        world.manager().tick()
        world.window()
        world.clock.advance(timedelta(seconds=1))
    return world


def plan(world: EngineWorld, text: str, inspection: MemoryInspection | None = None) -> PlannedSeek:
    shards = world.shards.list_shards()
    target = at_place(place(text), shards, (), world.ports)
    return planned("orders", None, world.table.real.scan(), shards, target, world.ports, inspection)


def test_a_lease_at_latest_that_was_not_opened_has_no_pace() -> None:
    """A plan that took all that the stream keeps for its lag would promise a time to catch up."""
    world = stream_of_two_hours()
    world.change_lease(checkpoint=LATEST, lease_owner=None)
    found = plan(world, "1h", BY_CLOUDWATCH)
    assert found.in_time == {}
    assert found.estimate.catch_up.within is None
    assert found.estimate.repeats.time == HOUR


RATE = 1 / EVERY.total_seconds()
BY_CLOUDWATCH = MemoryInspection(volume=Volume(1000, RATE))


@pytest.mark.parametrize("split_at", [None, HOUR, 1.5 * HOUR])
def test_an_hour_again_is_an_hour_of_records(split_at: timedelta | None) -> None:
    world = stream_of_two_hours(split_at)
    found = plan(world, "1h", BY_CLOUDWATCH)
    extent = found.estimate.repeats
    carry_out(found, seek_of(found, world.ports), world.snapshots)
    before = len(world.handler.finished)
    for _ in range(8):
        world.manager().tick()
        world.window()
        world.clock.advance(timedelta(seconds=1))
    came_again = len(world.handler.finished) - before
    assert extent.records is not None
    assert abs(extent.records - came_again) <= 4, "what the plan said is what came"
    assert extent.time is not None
    assert abs(extent.time - HOUR) <= 2 * EVERY
    assert found.estimate.counted_by is CountedBy.CLOUDWATCH


def test_estimate_includes_skipped_records() -> None:
    world = stream_of_two_hours()
    back = plan(world, "1h")
    SeekRun(back.plan, world.ports, "a test").run()
    found = plan(world, "latest", BY_CLOUDWATCH)
    assert found.estimate.skips.records == pytest.approx(360, abs=4)
    assert found.estimate.repeats.shards == 0


@pytest.mark.parametrize("inspection", [None, MemoryInspection(), MemoryInspection(refuses=frozenset({"incoming"}))])
def test_estimate_samples_a_page_at_both_ends_without_cloudwatch(
    inspection: MemoryInspection | None,
) -> None:
    """The owner catches up: it handles a hundred times what arrives."""
    world = stream_of_two_hours()
    report = world.table.lease().lag_report
    assert report is not None
    world.change_lease(lag_report=report._replace(records_per_second=100 * RATE))
    found = plan(world, "1h", inspection)
    assert found.estimate.counted_by is CountedBy.SAMPLE
    assert found.estimate.repeats.records == pytest.approx(360, abs=4)


def test_estimate_walks_no_shard() -> None:
    """One page at each lease's position, one at each position of a snapshot, and two to count by."""
    world = stream_of_two_hours()
    kept = snapshot_by_hand("kept", world.table.real.scan(), world.clock.now(), "an operator", None)
    SeekRun(plan(world, "1h").plan, world.ports, "a test").run()
    world.stream.polls.clear()
    found = to_snapshot(world, kept)
    assert len(world.stream.polls) == 4
    assert found.estimate.skips.time is not None
    assert abs(found.estimate.skips.time - HOUR) <= 2 * EVERY


def test_estimate_names_shards_past_the_snapshots_retention() -> None:
    world = stream_of_two_hours()
    kept = snapshot_by_hand("kept", world.table.real.scan(), world.clock.now(), "an operator", None)
    assert to_snapshot(world, kept).estimate.trimmed == []
    world.put("later")
    world.shards.trim(world.clock.now())
    SeekRun(plan(world, "latest").plan, world.ports, "a test").run()
    assert to_snapshot(world, kept).estimate.trimmed == [SHARD]


def to_snapshot(world: EngineWorld, kept: Snapshot) -> PlannedSeek:
    shards = world.shards.list_shards()
    target = at_positions(kept, "to snapshot kept", shards, (), world.ports)
    return planned("orders", None, world.table.real.scan(), shards, target, world.ports)


@pytest.mark.parametrize(("by", "back"), [(-HOUR / 2, True), (HOUR / 4, False)])
def test_a_shift_is_from_where_each_shard_is(by: timedelta, back: bool) -> None:
    world = stream_of_two_hours()
    SeekRun(plan(world, "1h").plan, world.ports, "a test").run()
    scan, shards = world.table.real.scan(), world.shards.list_shards()
    target = shifted(by, scan.leases, shards, (), world.ports)
    found = planned("orders", None, scan, shards, target, world.ports)
    moved = found.estimate.repeats if back else found.estimate.skips
    assert moved.time is not None
    assert abs(moved.time - abs(by)) <= 2 * EVERY


class EndlesslyBusy:
    """A shard to which a record comes between any two reads."""

    def __init__(self, world: EngineWorld) -> None:
        self._world = world
        self._stream = world.ports.stream
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def reader(self, shard_id: str, position: ReadPosition) -> Any:
        reader = self._stream.reader(shard_id, position)

        class Busy:
            def read(_, limit: int) -> Any:  # noqa: N805
                self.reads += 1
                assert self.reads < 1000, "a search reads on for as long as records come"
                self._world.shards.put("key", b"x")
                return reader.read(limit)

        return Busy()


def test_a_time_in_the_future_is_refused_before_a_shard_is_read() -> None:
    world = stream_of_two_hours()
    busy = EndlesslyBusy(world)
    ports = dataclasses.replace(world.ports, stream=busy)
    with pytest.raises(SeekRefused, match="2126-11-22T08:00:00Z is in the future: the stream's time is "):
        at_place(place("2126-11-22T08:00:00Z"), world.shards.list_shards(), (), ports)
    assert busy.reads == 0


def test_a_shift_beyond_the_tip_ends_at_the_tip_of_a_busy_shard() -> None:
    world = stream_of_two_hours()
    ports = dataclasses.replace(world.ports, stream=EndlesslyBusy(world))
    scan, shards = world.table.real.scan(), world.shards.list_shards()
    target = shifted(HOUR, scan.leases, shards, (), ports)
    ((_, position),) = target.positions.items()
    assert position.checkpoint.is_sequence_number


def test_a_shard_that_began_within_a_shift_is_not_shifted_past_its_parents() -> None:
    world = stream_of_two_hours(split_at=HOUR)
    scan, shards = world.table.real.scan(), world.shards.list_shards()
    with pytest.raises(SeekRefused, match="its parents have the records before: seek to a time"):
        shifted(-1.5 * HOUR, scan.leases, shards, (), world.ports)


@pytest.mark.parametrize(("text", "meant"), [("TRIM_HORIZON", "earliest"), ("Latest", "latest"), ("LATEST", "latest")])
def test_position_may_have_kinesis_own_name(text: str, meant: str) -> None:
    assert place(text) == place(meant)
