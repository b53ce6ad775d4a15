"""Where reading a lease begins, what is skipped, and when records may have been lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sublet.decisions.session.read_position import IteratorType
from sublet.decisions.session.window import SessionOutcome
from sublet.engine.process_shared import StrayAggregates
from sublet.errors import LeaseTableUnavailable, StreamAccessDenied
from sublet.metric_names import Metric
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, Checkpoint
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.protocol.records import StreamRecord
from sublet.protocol.stream_info import RecordDistribution
from sublet.settings import HashRangeFilter, StartKind, StartPosition

from tests.doubles.engine_world import (
    CONTINUOUS,
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    Result,
    lease_of,
    only,
)

HOUR = timedelta(hours=1)
SLOWLY = replace(CONTINUOUS, idle_poll_interval=MINUTE, heartbeat_interval=5 * MINUTE, failover_time=15 * MINUTE)


def put_aggregate(world: EngineWorld, *texts: str, hash_key: int = 0) -> str:
    """One KPL aggregate into the shard of `hash_key`; its user records say that they belong there."""
    data = aggregate([(f"key-{text}", str(hash_key), text.encode()) for text in texts])
    return world.shards.put("key", data, hash_key)


def test_latest_lease_is_pinned_before_its_first_open() -> None:
    """Opening LATEST again would lose what came between the windows."""
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition(StartKind.LATEST)))
    world.change_lease(checkpoint=LATEST)
    world.put("before")
    world.clock.advance(SECOND)
    kinds_at_open: list[WriteKind] = []
    world.stream.disturb_open = lambda _: kinds_at_open.extend(world.table.kinds())
    pinned_at = world.clock.now()
    world.window()
    assert kinds_at_open == [WriteKind.ACQUIRE, WriteKind.PIN]
    assert world.table.lease().start_at == pinned_at
    assert world.handler.data() == []
    world.clock.advance(HOUR)
    world.put("between")
    world.clock.advance(HOUR)
    world.window()
    assert world.handler.data() == [b"between"]
    assert world.table.lease().start_at is None, "the first real checkpoint is the better start"


def test_a_latest_lease_whose_parent_has_a_lease_is_read_from_its_shards_beginning() -> None:
    """Two first ticks around a split have created the parent's lease and the child's both at LATEST."""
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition(StartKind.LATEST)), leases=False)
    parent = world.shards.list_shards()[0]
    children = world.shards.split(SHARD)
    for shard in (parent, *(s for s in world.shards.list_shards() if s.shard_id in children)):
        world.put_lease(lease_of(shard, LATEST))
    world.put("while the parent is read")
    world.clock.advance(MINUTE)
    assert world.window(world.item(SHARD)).leases[0].outcome is SessionOutcome.SHARD_ENDED
    world.window(world.item(*children))
    assert world.handler.data() == [b"while the parent is read"]


def test_a_latest_lease_that_cannot_be_pinned_is_not_opened() -> None:
    """Neither LATEST, which would lose records, nor the horizon, which would bring days of them."""
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition(StartKind.LATEST)))
    world.change_lease(checkpoint=LATEST)
    world.put("before")

    def no_pin(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        if write.kind is WriteKind.PIN:
            raise LeaseTableUnavailable("timed out")
        return apply()

    world.table.disturb = no_pin
    world.window()
    assert world.stream.opened == []
    assert world.handler.data() == []
    assert world.table.lease().lease_owner is None


def test_an_at_timestamp_lease_starts_at_its_moment() -> None:
    world = EngineWorld()
    world.put("before")
    world.clock.advance(HOUR)
    world.change_lease(checkpoint=AT_TIMESTAMP, start_at=world.clock.now())
    world.put("after")
    world.window()
    assert world.handler.data() == [b"after"]


def test_a_java_workers_at_timestamp_lease_starts_at_our_own_setting() -> None:
    """Java keeps the moment in its configuration, not in the row."""
    world = EngineWorld()
    world.put("before")
    world.clock.advance(HOUR)
    world.settings = replace(NO_WAITING, start_position=StartPosition(StartKind.AT_TIMESTAMP, world.clock.now()))
    world.change_lease(checkpoint=AT_TIMESTAMP)
    world.put("after")
    world.window()
    assert world.handler.data() == [b"after"]


def test_a_checkpoint_in_the_middle_of_an_aggregate_is_resumed_there() -> None:
    """KCL's rule: open AT the stream record, and drop what is not after (sequence number, sub-sequence number)."""
    world = EngineWorld()
    number = put_aggregate(world, "a", "b", "c")
    world.put("d")
    world.change_lease(checkpoint=Checkpoint(number, 1))
    world.window()
    assert world.handler.data() == [b"c", b"d"]
    assert world.stream.opened[0].type is IteratorType.AT_SEQUENCE_NUMBER


def test_a_finished_record_does_not_come_again() -> None:
    world = EngineWorld()
    put_aggregate(world, "a", "b")
    world.window()
    world.window()
    assert world.handler.data() == [b"a", b"b"]
    assert len(world.handler.batches) == 1


def test_aggregate_outside_the_hash_range_is_dropped_counted_and_checkpointed() -> None:
    """KCL's rule: after a reshard the KPL sends it again. A checkpoint that stays would drop it for ever, and count for
    ever.
    """
    world = EngineWorld(shards=2)
    number = world.shards.put("k", aggregate([("key", str(2**128 - 1), b"elsewhere")]), 0)
    report = only(world.window(world.item(SHARD)))
    assert world.handler.data() == []
    assert report.dropped_out_of_range == 1
    assert world.metrics.values(Metric.RECORDS_DROPPED_OUT_OF_RANGE) == [1]
    assert world.table.lease().checkpoint == Checkpoint(number)


def stray(world: EngineWorld) -> str:
    return world.shards.put("k", aggregate([("key", str(2**128 - 1), b"elsewhere")]), 0)


def test_an_aggregate_that_the_stream_itself_has_placed_is_delivered() -> None:
    """KCL drops it silently, and the producer does not send it again."""
    world = EngineWorld(shards=2)
    stray(world)
    world.shards.distribution = RecordDistribution.AUTO
    assert only(world.window(world.item(SHARD))).dropped_out_of_range == 0
    assert world.handler.data() == [b"elsewhere"]


def test_strays_are_delivered_for_a_retention_after_the_switch_back_from_auto() -> None:
    """The lease manager remembers that it has seen AUTO, and tells the workers that it sends."""
    world = EngineWorld(shards=2)
    world.shards.distribution = RecordDistribution.AUTO
    world.manager().tick()
    stray(world)
    world.shards.distribution = RecordDistribution.USER_PARTITION_KEY
    world.clock.advance(HOUR)
    [item] = [item for tick in (world.manager().tick(),) for item in tick.dispatched]
    assert item.auto_seen_at is not None
    world.window(item)
    assert world.handler.data() == [b"elsewhere"]
    world.clock.advance(25 * HOUR)
    world.shards.trim(world.clock.now())
    stray(world)
    for item in world.manager().tick().dispatched:
        world.window(item)
    assert world.handler.data() == [b"elsewhere"]


@pytest.mark.parametrize("refused", [True, False])
def test_strays_are_kept_when_the_distribution_is_unknown(refused: bool) -> None:
    world = EngineWorld(shards=2)

    def denied() -> None:
        if refused:
            raise StreamAccessDenied("kinesis:DescribeStreamSummary")

    world.stream.disturb_identity = denied
    world.shards.distribution = RecordDistribution.USER_PARTITION_KEY if refused else None
    stray(world)
    world.window(world.item(SHARD))
    assert world.handler.data() == [b"elsewhere"]
    assert "aggregates outside their shard's hash key range are kept" in world.log.messages("warning")


def test_other_leases_take_their_aggregates_apart_while_the_stream_is_asked() -> None:
    """A call that hangs holds up the lease that makes it, and no other."""
    world = EngineWorld(shards=2)
    other = world.shards.list_shards()[1].shard_id
    world.stream.disturb_identity = lambda: world.ports.tasks.signal().wait(timedelta(seconds=20))
    stray(world)
    world.shards.put("k", aggregate([("key", str(2**128 - 1), b"at home")]), 2**128 - 1)
    began = world.clock.steady()
    handled_after: list[timedelta] = []
    world.handler.script = lambda _: handled_after.append(world.clock.steady() - began)
    world.window(world.item(SHARD, other))
    assert world.handler.data(other) == [b"at home"]
    assert handled_after[0] < timedelta(seconds=20)


def test_strays_without_end_are_asked_about_ever_more_seldom() -> None:
    """An account may describe its streams 20 times a second, all together."""
    world = EngineWorld(shards=2)
    asked: list[datetime] = []
    world.stream.disturb_identity = lambda: asked.append(world.clock.now())
    strays = StrayAggregates(world.ports)
    for _ in range(3600):
        strays.may_drop(StreamRecord("1", b"", "k", world.clock.now()))
        world.clock.advance(timedelta(seconds=1))
    assert len(asked) <= 20
    world.clock.advance(HOUR)
    assert strays.may_drop(StreamRecord("1", b"", "k", world.clock.now()))


def test_a_stray_that_follows_another_at_once_waits_for_its_own_answer() -> None:
    """Producers send strays for some seconds after a reshard, and Kinesis tells its time in whole seconds."""
    world = EngineWorld()
    strays = StrayAggregates(world.ports)
    for after in (timedelta(0), timedelta(milliseconds=300), timedelta(milliseconds=900)):
        world.clock.advance(after)
        assert strays.may_drop(StreamRecord("1", b"", "k", world.clock.now())), after


def test_aggregate_out_of_range_is_delivered_without_hash_range_filter() -> None:
    world = EngineWorld(replace(NO_WAITING, hash_range_filter=HashRangeFilter.OFF), shards=2)
    world.shards.put("k", aggregate([("key", str(2**128 - 1), b"elsewhere")]), 0)
    assert only(world.window(world.item(SHARD))).dropped_out_of_range == 0
    assert world.handler.data() == [b"elsewhere"]


def test_a_row_without_a_hash_range_is_not_filtered() -> None:
    """kcl-rust and old Java rows have none: dropping by a range that we do not know would lose records."""
    world = EngineWorld(shards=2)
    world.change_lease(hash_key_range=None)
    world.shards.put("k", aggregate([("key", str(2**128 - 1), b"x")]), 0)
    world.window(world.item(SHARD))
    assert world.handler.data() == [b"x"]


def consume_then_trim(world: EngineWorld, unread: int, idle: timedelta) -> None:
    """One record is handled, `unread` arrive and are trimmed unread, and one is left to read."""
    world.put("read")
    world.window()
    world.clock.advance(idle)
    world.put(*(f"unread {n}" for n in range(unread)))
    world.clock.advance(25 * HOUR)
    world.shards.trim(before=world.clock.now())
    world.put("new")
    world.window()


def test_session_reports_a_gap_and_reads_on_when_unread_records_were_trimmed() -> None:
    world = EngineWorld()
    consume_then_trim(world, unread=3, idle=HOUR)
    assert world.handler.data() == [b"read", b"new"]
    assert world.metrics.values(Metric.DATA_GAP) == [1]
    (line,) = [line for line in world.log.lines if line.message.startswith("data gap")]
    (first,) = world.handler.batches[-1].records
    assert line.fields == {
        "shard_id": SHARD,
        "checkpoint": str(world.handler.batches[0].records[0].checkpoint),
        "first_sequence_number": first.sequence_number,
        "first_arrival": first.approximate_arrival_timestamp.isoformat(),
    }


@pytest.mark.parametrize("is_closed", [False, True])
def test_session_reports_a_gap_when_all_unread_records_were_trimmed(
    is_closed: bool,
) -> None:
    """The checkpointed record would be read again if it were there."""
    world = EngineWorld()
    world.put("read")
    world.window()
    world.put("unread")
    world.clock.advance(23 * HOUR)
    if is_closed:
        world.shards.split(SHARD)
    world.clock.advance(2 * HOUR)
    world.shards.trim(before=world.clock.now() - 24 * HOUR)
    world.window(world.item(SHARD))
    assert world.metrics.values(Metric.DATA_GAP) == [1]
    (line,) = [line for line in world.log.lines if line.message.startswith("data gap")]
    assert "first_arrival" not in line.fields
    world.window(world.item(SHARD))
    assert world.metrics.values(Metric.DATA_GAP) == [1], "once: it is caught up now"


def test_a_quiet_shard_that_was_looked_at_every_day_has_no_gap() -> None:
    """Its last record is past retention, but nothing came after it: windows found it caught up, again and again."""
    world = EngineWorld()
    world.put("read")
    for _ in range(5):
        world.window()
        world.clock.advance(20 * HOUR)
    world.shards.trim(before=world.clock.now())
    world.put("new")
    world.window()
    assert world.handler.data() == [b"read", b"new"]
    assert world.metrics.values(Metric.DATA_GAP) == []


def test_caught_up_at_is_the_last_look_at_the_tip_not_the_end_of_a_long_handler_call() -> None:
    """What arrived during the call was not seen: it must not count as seen."""
    world = EngineWorld(replace(NO_WAITING, checkpoint_interval=HOUR))
    world.put("a")
    world.handler.script = lambda _: world.tasks.sleep(10 * MINUTE)
    assert only(world.window(lasts=HOUR)).outcome is SessionOutcome.CAUGHT_UP
    assert world.table.lease().caught_up_at == world.began


def test_continuous_tells_at_its_last_window_that_it_was_caught_up() -> None:
    """A shard with a record a week would otherwise look like one with a gap each time."""
    world = EngineWorld(CONTINUOUS)
    world.window(world.item(windows_left=1))
    caught_up_at = world.table.lease().caught_up_at
    assert caught_up_at is not None
    assert world.clock.now() - caught_up_at <= CONTINUOUS.idle_poll_interval


def test_a_lease_that_is_kept_over_a_quiet_day_has_no_gap() -> None:
    """It is never released, so its owner notes by the hour that nothing is left."""
    world = EngineWorld(SLOWLY)
    world.put("read")
    world.window(world.item(windows_left=9), lasts=26 * HOUR)
    world.shards.trim(before=world.clock.now() - 24 * HOUR)
    world.put("new")
    world.window(world.item(windows_left=8))
    assert world.handler.data() == [b"read", b"new"]
    assert world.metrics.values(Metric.DATA_GAP) == []


def test_crashes_are_cleared_at_the_tip() -> None:
    world = EngineWorld(CONTINUOUS)
    world.change_lease(crashes=4)
    world.window(world.item(windows_left=9))
    assert world.table.lease().crashes == 0


def test_a_window_that_ends_behind_the_tip_does_not_claim_to_have_caught_up() -> None:
    world = EngineWorld(replace(NO_WAITING, poll_limit=1))
    world.put(*map(str, range(100)))
    world.clock.advance(HOUR)
    world.handler.script = lambda _: world.tasks.sleep(SECOND)
    world.window(lasts=10 * SECOND)
    assert world.table.lease().caught_up_at is None


@pytest.mark.parametrize("ahead", [timedelta(0), SECOND, 10 * MINUTE])
def test_latest_lease_loses_nothing_when_the_workers_clock_is_ahead(
    ahead: timedelta,
) -> None:
    """Pinned by our own clock, what arrives within what it is ahead by would lie before the pin."""
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition.parse("LATEST")), leases=False)
    world.put("before the application")
    world.clock.advance(10 * SECOND)
    world.manager().tick()
    (item,) = world.dispatcher.take()
    world.clock.jump(ahead)
    world.window(item)
    world.clock.advance(SECOND / 2)
    world.put("one")
    world.clock.advance(MINUTE)
    world.window()
    assert world.handler.data() == [b"one"]
