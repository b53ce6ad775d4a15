"""A shard to which nothing comes is walked once, and not by every window: counted in polls."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.session.quiet import ARRIVALS_DIFFER_BY
from sublet.decisions.session.read_position import MILLISECOND, IteratorType, ReadPosition
from sublet.metric_names import Metric
from sublet.protocol.checkpoint import LATEST, TRIM_HORIZON, Checkpoint
from sublet.settings import Checkpointing, StartKind, StartPosition

from tests.doubles.engine_world import CONTINUOUS, MINUTE, NO_WAITING, SECOND, SHARD, EngineWorld

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ADVANCES = (MINUTE, 5 * MINUTE, HOUR)


def polls_of(world: EngineWorld, lasts: timedelta = 4 * MINUTE) -> int:
    """Of one window."""
    before = len(world.stream.polls)
    world.window(lasts=lasts)
    return len(world.stream.polls) - before


def at_most(idle: timedelta, advance: timedelta) -> int:
    """Polls of a window whose last proof is so old."""
    return 2 + math.ceil((idle + ARRIVALS_DIFFER_BY) / advance)


@pytest.mark.parametrize("advance", ADVANCES)
@pytest.mark.parametrize("start", ["read", "never written to", "pinned"])
def test_idle_shard_is_walked_by_one_window_only(advance: timedelta, start: str) -> None:
    world = EngineWorld(NO_WAITING, advance=advance)
    if start == "read":
        world.put("a")
    if start == "pinned":
        world.change_lease(checkpoint=LATEST, start_at=world.clock.now())
    polls_of(world)
    idle = 3 * HOUR
    world.clock.advance(idle)
    assert polls_of(world) <= at_most(idle, advance)
    for _ in range(3):
        began = world.clock.now()
        world.clock.advance(MINUTE)
        assert polls_of(world) <= at_most(world.clock.now() - began, advance)
    world.put("b")
    world.window()
    assert world.handler.data()[-1] == b"b"
    assert world.metrics.values(Metric.DATA_GAP) == []


def test_a_window_that_ends_before_the_tip_goes_on_from_there() -> None:
    """Twenty days off, and records are kept for thirty."""
    world = EngineWorld(NO_WAITING, advance=5 * MINUTE)
    world.put("a")
    world.window()
    world.clock.advance(20 * DAY)
    world.put("b")
    lasts, windows = 4 * MINUTE, 0
    while world.handler.data() != [b"a", b"b"]:
        world.window(lasts=lasts)
        windows += 1
        assert windows <= 2 + 20 * DAY / (5 * MINUTE * (lasts / (200 * SECOND / 1000)))
    assert world.metrics.values(Metric.DATA_GAP) == []


def test_a_process_that_dies_in_the_midst_of_it_has_said_how_far_it_was() -> None:
    """With its heartbeats, which it makes anyway."""
    world = EngineWorld(CONTINUOUS, advance=MINUTE)
    (read,) = world.put("a")
    world.change_lease(checkpoint=Checkpoint(read))
    world.clock.advance(DAY)
    began = world.clock.now()
    world.at(MINUTE, lambda: check(world))
    checked = []

    def check(world: EngineWorld) -> None:
        until = world.table.lease().quiet_until
        assert until is not None
        checked.append(until - (began - DAY))

    world.window(lasts=2 * MINUTE)
    walked = MINUTE / (world.settings.poll_interval) * MINUTE
    late = world.settings.heartbeat_interval / world.settings.poll_interval * MINUTE
    assert checked[0] >= walked - 1.2 * late


def test_a_shard_that_gets_records_is_opened_at_its_checkpoint() -> None:
    """Two minutes of records would come again, with each window."""
    world = EngineWorld(NO_WAITING)
    for n in range(4):
        world.put(f"{n}")
        world.window()
        world.clock.advance(MINUTE)
    types = {position.type for position in world.stream.opened[1:]}
    assert types == {IteratorType.AT_SEQUENCE_NUMBER}


def test_shard_is_not_quiet_while_a_batch_is_not_checkpointed() -> None:
    """A batch that a handler keeps: reading goes on, and what it has not checkpointed comes again."""
    world = EngineWorld(replace(NO_WAITING, checkpointing=Checkpointing.MANUAL))
    world.put("kept")
    world.clock.advance(HOUR)
    world.window()
    row = world.table.lease()
    assert (row.checkpoint, row.quiet_until) == (TRIM_HORIZON, None)
    world.clock.advance(HOUR)
    world.window()
    assert [batch.records[0].data for batch in world.handler.batches] == [b"kept", b"kept"]


@pytest.mark.parametrize("where", ["row", "worker"])
def test_a_checkpoint_that_is_moved_back_makes_it_void(where: str) -> None:
    """In the row of a free lease, or under a worker that has walked on and says so with its next heartbeat."""
    world = EngineWorld(CONTINUOUS)
    first, *_ = world.put("a", "b", "c")
    world.clock.advance(HOUR)
    if where == "worker":
        world.at(MINUTE, lambda: world.change_lease(checkpoint=Checkpoint(first)))
    world.window(lasts=3 * MINUTE)
    if where == "row":
        assert world.table.lease().quiet_until is not None
        world.change_lease(checkpoint=Checkpoint(first))
        assert world.table.lease().quiet_until is None
        world.window(lasts=3 * MINUTE)
    assert world.handler.data() == [b"a", b"b", b"c", b"b", b"c"]


def test_open_at_a_timestamp_also_sends_the_sequence_number() -> None:
    """A sequence number fits one stream alone, and a moment any: the service is asked for both."""
    world = EngineWorld()
    (read,) = world.put("a")
    for _ in range(3):
        world.window()
        world.clock.advance(HOUR)
    assert world.stream.opened[-1].type is IteratorType.AT_TIMESTAMP
    assert world.stream.opened[-1].sequence_number == read


def test_quiet_time_is_not_noted_without_the_services_time() -> None:
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition(StartKind.TRIM_HORIZON)))

    def undated(poll: object) -> object:
        reply = poll()  # type: ignore[operator]
        return reply._replace(page=reply.page._replace(answered_at=None))

    world.stream.disturb = undated  # type: ignore[assignment]
    world.clock.advance(HOUR)
    world.window()
    row = world.table.lease()
    assert row.quiet is None
    assert row.caught_up_at is not None


def test_a_walk_is_neither_a_lag_nor_a_stall() -> None:
    """Ten minutes of empty pages that lag by days."""
    world = EngineWorld(CONTINUOUS, advance=5 * MINUTE)
    world.clock.advance(30 * DAY)
    world.window(lasts=10 * MINUTE)
    assert set(world.metrics.values(Metric.MILLIS_BEHIND_LATEST)) <= {0}
    assert max(world.metrics.values(Metric.CHECKPOINT_AGE)) <= MINUTE / MILLISECOND


def test_pages_without_a_record_that_get_nowhere_are_a_stall() -> None:
    world = EngineWorld(CONTINUOUS)
    world.clock.advance(DAY)
    iterator = world.shards.open(SHARD, ReadPosition(IteratorType.TRIM_HORIZON))
    world.stream.disturb = lambda _: world.shards.without_records(iterator)
    world.window(lasts=10 * MINUTE)
    assert max(world.metrics.values(Metric.CHECKPOINT_AGE, SHARD)) >= 9 * MINUTE / MILLISECOND


def test_position_moved_back_during_a_long_call_is_not_noted_as_quiet() -> None:
    world = EngineWorld(CONTINUOUS)
    first, *_ = world.put("a", "b")
    world.clock.advance(HOUR)
    world.at(5 * MINUTE, lambda: world.put("c"))
    world.handler.script = lambda batch: world.tasks.sleep(MINUTE) if batch.records[0].data == b"c" else None
    world.at(5 * MINUTE + 10 * SECOND, lambda: world.change_lease(checkpoint=Checkpoint(first)))
    world.window(lasts=10 * MINUTE)
    assert world.handler.data() == [b"a", b"b", b"c", b"b", b"c"]
