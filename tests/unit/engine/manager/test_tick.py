"""The lease manager's tick creates leases, cleans up, dispatches and reports, alone and beside another tick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.dispatching import WORKER_STARTS_WITHIN
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.session.window import AfterWindow, SessionOutcome
from sublet.engine.control_watch import ControlWatch
from sublet.engine.manager.adoption import adopt_stream
from sublet.engine.manager.look import look
from sublet.engine.manager.tick import LeaseManager
from sublet.errors import (
    LeaseTableAccessDenied,
    LeaseTableUnavailable,
    SettingsError,
    StreamNotFound,
    StreamUnavailable,
)
from sublet.metric_names import Metric
from sublet.protocol.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, delete
from sublet.settings import StartKind, StartPosition

from tests.doubles.engine_world import (
    CONTINUOUS,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    Result,
    outcomes,
    raising,
)

SHARD_1, SHARD_2, SHARD_3 = (f"shardId-{n:012}" for n in (1, 2, 3))
HOUR = timedelta(hours=1)


def claimed(world: EngineWorld) -> list[str]:
    """The lease keys of all items dispatched so far, sorted."""
    return sorted(claim.lease_key for item in world.dispatcher.items for claim in item.claims)


def run_dispatched(world: EngineWorld) -> list[dict[str, SessionOutcome]]:
    """Run every dispatched item's window, one after the other."""
    return [outcomes(world.window(item)) for item in world.dispatcher.take()]


def tick_until_done(world: EngineWorld, ticks: int = 10) -> None:
    """Tick and run what is dispatched, until a tick finds nothing to read any more."""
    for _ in range(ticks):
        world.manager().tick()
        if not [item for item in world.dispatcher.take() if world.window(item).next is not AfterWindow.DONE]:
            return


def test_first_tick_creates_and_dispatches_a_lease_for_each_shard() -> None:
    """From an empty table to the first record within one tick."""
    world = EngineWorld(shards=3, leases=False)
    world.put("a", "b", "c")
    report = world.manager().tick()
    assert (report.created, report.total_leases, report.total_shards) == (3, 3, 3)
    told = [line.fields for line in world.log.lines if line.message == "lease created"]
    assert [(line["lease_key"], line["checkpoint"]) for line in told] == [
        (shard, "TRIM_HORIZON") for shard in (SHARD, SHARD_1, SHARD_2)
    ]
    assert claimed(world) == [SHARD, SHARD_1, SHARD_2]
    run_dispatched(world)
    assert world.handler.data() == [b"a", b"b", b"c"]


def test_a_tick_over_a_quiet_table_writes_nothing() -> None:
    world = EngineWorld(shards=3)
    world.manager().tick()
    assert world.table.writes == []


def test_leases_beyond_one_workers_limit_are_spread_evenly() -> None:
    world = EngineWorld(replace(NO_WAITING, leases_per_worker=10), shards=11)
    world.manager().tick()
    assert sorted(len(item.claims) for item in world.dispatcher.items) == [5, 6]


def test_the_shards_are_listed_after_the_leases_were_scanned() -> None:
    """The other way round, a lease created in between would look like one without a shard."""
    world = EngineWorld()
    world.manager().tick()
    assert world.stream.looks == ["leases", "shards"]


def test_latest_begins_with_the_shards_that_are_open_and_a_moment_that_is_pinned() -> None:
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition(StartKind.LATEST)), leases=False)
    world.put("before")
    world.shards.split(SHARD)
    world.clock.advance(SECOND)
    world.manager().tick()
    assert claimed(world) == [SHARD_1, SHARD_2]
    run_dispatched(world)
    world.put("after")
    tick_until_done(world)
    assert world.handler.data() == [b"after"]
    assert {world.table.lease(key).checkpoint for key in (SHARD_1, SHARD_2)} >= {LATEST}


def test_late_first_tick_at_latest_creates_no_leases_after_two_reshards() -> None:
    """Otherwise the grandchild would start at its own first opening, and the records of the shards in between be
    skipped.
    """
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition(StartKind.LATEST)), leases=False)
    first = world.manager()

    def meanwhile(_: StartPosition | None) -> None:
        world.stream.disturb_listing = lambda _: None
        first.tick()
        run_dispatched(world)
        low, _high = world.shards.split(SHARD)
        world.shards.split(low)

    world.stream.disturb_listing = meanwhile
    report = world.manager().tick()
    assert (report.created, sorted(world.table.real.rows())) == (0, [SHARD])
    world.put("while the first shard is read")
    tick_until_done(world)
    assert world.handler.data() == [b"while the first shard is read"]


def test_tick_scans_twice_only_when_it_creates_leases_at_latest() -> None:
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition(StartKind.LATEST)), leases=False)
    for _ in range(2):
        world.manager().tick()
    assert world.table.looks == ["leases", "shards", "leases", "leases", "shards"]


def test_a_start_that_has_not_come_is_refused_until_it_has() -> None:
    world = EngineWorld(leases=False)
    start = StartPosition(StartKind.AT_TIMESTAMP, world.clock.now() + HOUR)
    world.settings = replace(world.settings, start_position=start)
    with pytest.raises(SettingsError, match=r"start_position .* a time in the past"):
        world.manager().tick()
    assert world.table.writes == []
    world.clock.advance(HOUR)
    assert world.manager().tick().created == 1


def test_an_application_under_way_does_not_mind_a_start_that_has_not_come() -> None:
    world = EngineWorld()
    start = StartPosition(StartKind.AT_TIMESTAMP, world.clock.now() + HOUR)
    world.settings = replace(world.settings, start_position=start)
    assert world.manager().tick().dispatched


def test_records_are_read_through_a_split_and_a_merge_parents_first() -> None:
    world = EngineWorld(leases=False)
    world.put("first")
    low, high = world.shards.split(SHARD)
    world.put("second", shard=0)
    world.put("third", shard=1, of=2)
    merged = world.shards.merge(low, high)
    world.put("fourth")
    tick_until_done(world)
    data = world.handler.data()
    assert data[0] == b"first"
    assert sorted(data[1:3]) == [b"second", b"third"]
    assert data[3:] == [b"fourth"]
    assert world.table.lease(merged).lease_owner is None


def test_a_merge_whose_other_side_has_no_lease_is_healed_by_the_prompted_tick() -> None:
    """The worker's end is blocked until that lease exists and has ended; otherwise its records would be lost."""
    world = EngineWorld(shards=2, leases=False)
    world.put("left", shard=0, of=2)
    world.put("right", shard=1, of=2)
    world.manager().tick()
    world.table.real._rows.pop(SHARD_1)
    world.dispatcher.take()
    world.clock.advance(WORKER_STARTS_WITHIN)
    world.shards.merge(SHARD, SHARD_1)
    world.put("merged")
    tick_until_done(world)
    assert sorted(world.handler.data()[:2]) == [b"left", b"right"]
    assert world.handler.data()[2:] == [b"merged"]


# Who is alive


def test_dead_owners_lease_is_dispatched_after_failover_time_without_a_write() -> None:
    world = EngineWorld()
    world.steal(worker_id="dead", holder="gone/1")
    world.manager().tick()
    assert claimed(world) == []
    world.clock.advance(NO_WAITING.failover_time + SECOND)
    world.manager().tick()
    (item,) = world.dispatcher.items
    assert [claim.why for claim in item.claims] == [ClaimReason.EXPIRED]
    world.put("a")
    run_dispatched(world)
    assert world.handler.data() == [b"a"]


def test_leases_of_the_other_kind_are_named_once_an_hour() -> None:
    """They stay in the table for good, and a quiet fleet ticks each second at times."""
    world = EngineWorld()
    theirs = {
        "leaseKey": {"S": "123456789012:orders:1700000000:shardId-000000000009"},
        "streamName": {"S": "123456789012:orders:1700000000"},
        "shardId": {"S": "shardId-000000000009"},
        "leaseCounter": {"N": "4"},
        "checkpoint": {"S": "17"},
    }
    world.table.real.put_row(theirs)
    manager = world.manager()
    said = []
    for _ in range(3):
        for _ in range(5):
            manager.tick()
        said.append(len([line for line in world.log.lines if line.level == "warning"]))
        world.tasks.sleep(timedelta(minutes=35))
    assert said == [1, 1, 2]


def test_a_heartbeat_between_two_ticks_keeps_the_lease() -> None:
    world = EngineWorld()
    world.steal(worker_id="alive", holder="other/1")
    world.manager().tick()
    world.clock.advance(NO_WAITING.failover_time + SECOND)
    world.change_lease(lease_counter=world.table.lease().lease_counter + 1)
    world.manager().tick()
    assert claimed(world) == []


def test_an_owner_that_comes_back_after_the_tick_keeps_its_lease() -> None:
    """The acquire is for the counter as the tick saw it."""
    world = EngineWorld()
    world.steal(worker_id="slow", holder="other/1")
    world.manager().tick()
    world.clock.advance(NO_WAITING.failover_time + SECOND)
    world.manager().tick()
    world.change_lease(lease_counter=world.table.lease().lease_counter + 1)
    assert run_dispatched(world) == [{SHARD: SessionOutcome.COULD_NOT_ACQUIRE}]


# Two ticks at once


def test_overlapping_ticks_create_and_dispatch_each_lease_once() -> None:
    """EventBridge may deliver twice, and a prompt may meet the schedule: conditional writes put them in order."""
    world = EngineWorld(CONTINUOUS, shards=3, leases=False)
    world.put("a", "b", "c")
    first, second = world.manager(), world.manager()
    looks = [look(manager.ports, manager.settings, ControlWatch(manager.ports)) for manager in (first, second)]
    plans = []
    for manager, seen in zip((first, second), looks, strict=True):
        ports = replace(manager.ports, table=_SeenAs(world, seen.scan))  # type: ignore[arg-type]
        plans.append(LeaseManager(ports, world.dispatcher, manager.settings).tick())
    assert [plan.created for plan in plans] == [3, 0]
    assert claimed(world) == [SHARD, SHARD_1, SHARD_2]
    windows = [world.tasks.spawn(lambda item=item: world.window(item)) for item in world.dispatcher.take()]  # type: ignore[misc]
    acquired = [
        key
        for window in windows
        for key, outcome in outcomes(window.result()).items()
        if outcome is not SessionOutcome.COULD_NOT_ACQUIRE
    ]
    assert sorted(acquired) == [SHARD, SHARD_1, SHARD_2]
    assert world.handler.data() == [b"a", b"b", b"c"]


class _SeenAs:
    """The table as an overlapping tick saw it before the other one wrote."""

    def __init__(self, world: EngineWorld, scan: object):
        self._world = world
        self._scan = scan

    def scan(self) -> object:
        return self._scan

    def __getattr__(self, name: str) -> object:
        return getattr(self._world.table, name)


# Rows that are not as they should be


def test_a_malformed_row_is_reported_and_left_untouched_and_its_shard_alone_waits() -> None:
    world = EngineWorld(shards=3)
    world.put("a", shard=0, of=3)
    world.put("never", shard=1, of=3)
    world.put("c", shard=2, of=3)
    broken = {"leaseKey": {"S": SHARD_1}, "checkpoint": {"S": "TRIM_HORIZON"}}
    world.table.real.put_row(broken)
    report = world.manager().tick()
    assert report.malformed_rows == 1
    assert world.metrics.values(Metric.MALFORMED_ROWS) == [1]
    (line,) = [line for line in world.log.lines if line.level == "error"]
    assert line.fields["lease_key"] == SHARD_1
    assert "leaseCounter" in str(line.fields["problem"])
    assert claimed(world) == [SHARD, SHARD_2]
    run_dispatched(world)
    assert sorted(world.handler.data()) == [b"a", b"c"]
    assert world.table.real.rows()[SHARD_1] == broken


@pytest.mark.parametrize(("row", "at"), [(None, NO_WAITING.start_position), ({"leaseKey": {"S": SHARD}}, None)])
def test_a_listing_begins_where_reading_does_only_for_a_table_without_any_row(
    row: dict[str, AttributeValue] | None, at: StartPosition | None
) -> None:
    """Of a lease that cannot be read there are shards before that, which are not to be taken for gone."""
    world = EngineWorld(leases=False)
    if row is not None:
        world.table.real.put_row(row)
    asked: list[StartPosition | None] = []
    world.stream.disturb_listing = asked.append
    world.manager().tick()
    assert asked == [at]


def test_leases_of_a_multi_stream_kcl_are_left_alone_and_logged() -> None:
    world = EngineWorld(leases=False)
    world.put("a")
    theirs = {
        "leaseKey": {"S": "123456789012:orders:1700000000:shardId-000000000009"},
        "streamName": {"S": "123456789012:orders:1700000000"},
        "shardId": {"S": "shardId-000000000009"},
        "leaseCounter": {"N": "4"},
        "checkpoint": {"S": "17"},
    }
    world.table.real.put_row(theirs)
    report = world.manager().tick()
    assert (report.malformed_rows, report.created, report.deleted) == (0, 1, 0)
    assert world.metrics.values(Metric.MALFORMED_ROWS) == [0]
    (line,) = [line for line in world.log.lines if line.level == "warning"]
    assert line.fields["first"] == theirs["leaseKey"]["S"]
    run_dispatched(world)
    assert world.handler.data() == [b"a"]
    assert world.table.real.rows()[theirs["leaseKey"]["S"]] == theirs


def test_the_children_of_a_shard_whose_row_is_malformed_wait_too() -> None:
    world = EngineWorld()
    children = world.shards.split(SHARD)
    for shard in world.shards.list_shards()[1:]:
        world.put_lease(Lease(shard.shard_id, TRIM_HORIZON, parent_shard_ids=shard.parent_shard_ids))
    world.table.real.put_row({"leaseKey": {"S": SHARD}, "leaseCounter": {"N": "many"}})
    world.manager().tick()
    assert not set(children) & set(claimed(world))


def test_rows_of_another_entity_are_neither_read_nor_touched() -> None:
    """KCL 3.5 keeps its leader and its workers' metrics in the lease table."""
    world = EngineWorld()
    foreign = {"leaseKey": {"S": "Leader"}, "entityType": {"S": "LEADER"}}
    world.table.real.put_row(foreign)
    report = world.manager().tick()
    assert report.malformed_rows == 0
    assert claimed(world) == [SHARD]
    assert world.table.real.rows()["Leader"] == foreign


# Cleaning up


def test_lease_of_an_unlisted_shard_is_deleted_only_once_kinesis_denies_the_shard() -> None:
    world = EngineWorld()
    gone = Lease("shardId-000000000099", Checkpoint("100"))
    world.put_lease(gone)
    world.stream.unlisted.add(gone.lease_key)
    assert world.manager().tick().deleted == 0
    assert world.table.lease(gone.lease_key) == gone
    world.stream.unlisted.clear()
    assert world.manager().tick().deleted == 1
    assert world.table.get(gone.lease_key) is None


@pytest.mark.parametrize("ahead", [HOUR, -HOUR, SECOND])
def test_sighting_is_stored_at_the_tables_time_when_our_clock_is_wrong(ahead: timedelta) -> None:
    """Another process, whose clock is right, would take it for an hour old, or for unseen until then."""
    world = EngineWorld(CONTINUOUS)
    world.change_lease(lease_owner="somebody else", lease_counter=7)
    world.table.scanned_at = lambda: world.clock.now() - ahead
    world.manager().tick()
    wrong = timedelta(0) if ahead == SECOND else ahead
    assert world.sightings.load().sightings[SHARD].seen_at == world.clock.now() - wrong


def test_tick_dispatches_other_leases_when_a_delete_is_denied() -> None:
    world = EngineWorld(shards=2)
    adopt_stream(world.ports)
    world.put_lease(Lease("shardId-000000000099", Checkpoint("100")))
    works = world.table.disturb

    def denied(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        if write.kind is WriteKind.DELETE:
            raise LeaseTableAccessDenied("not authorized to perform dynamodb:DeleteItem")
        return works(write, apply)

    world.table.disturb = denied
    report = world.manager().tick()
    assert report.deleted == 0
    assert claimed(world) == [SHARD, SHARD_1]
    assert any("could not delete" in message for message in world.log.messages("error"))


def test_throttled_lookup_of_a_shard_keeps_its_lease_and_dispatches_the_others() -> None:
    """GetShardIterator is throttled by the shard, and all of its readers share its limit."""
    world = EngineWorld(shards=2)
    adopt_stream(world.ports)
    world.put_lease(Lease("shardId-000000000099", Checkpoint("100")))
    world.stream.disturb_has_shard = raising(StreamUnavailable("Rate exceeded"))
    report = world.manager().tick()
    assert report.deleted == 0
    assert claimed(world) == [SHARD, SHARD_1]
    assert any("could not delete" in message for message in world.log.messages("error"))


def test_a_lease_deleted_with_records_unread_is_a_data_gap() -> None:
    world = EngineWorld()
    adopt_stream(world.ports)
    world.put_lease(Lease("shardId-000000000099", Checkpoint("100")))
    world.manager().tick()
    assert world.metrics.values(Metric.DATA_GAP) == [1]


def test_a_lease_that_moved_since_the_scan_is_not_deleted() -> None:
    """The cleanup judged another state of it."""
    world = EngineWorld()
    adopt_stream(world.ports)
    world.put_lease(Lease("shardId-000000000099", Checkpoint("100")))

    def moves(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        if write.kind is WriteKind.DELETE:
            world.change_lease(write.lease_key, lease_counter=5)
        return apply()

    world.table.disturb = moves
    assert world.manager().tick().deleted == 0
    assert world.table.lease("shardId-000000000099").lease_counter == 5


def test_an_ended_lease_goes_when_its_children_are_under_way() -> None:
    world = EngineWorld(leases=False)
    world.put("parent")
    world.shards.split(SHARD)
    world.put("low", shard=0, of=2)
    world.put("high", shard=1, of=2)
    world.manager().tick()
    run_dispatched(world)
    assert world.table.lease(SHARD).is_ended
    world.manager().tick()
    assert world.table.get(SHARD) is None
    (line,) = [line for line in world.log.lines if line.message == "lease deleted"]
    assert line.fields["lease_key"] == SHARD
    tick_until_done(world)
    assert sorted(world.handler.data()) == [b"high", b"low", b"parent"]
    assert world.table.get(SHARD) is None, "and it is not created again"


# Failures


def test_a_deleted_stream_ends_the_tick_before_anything_is_written() -> None:
    world = EngineWorld()
    world.shards.delete()
    with pytest.raises(StreamNotFound, match="events"):
        world.manager().tick()
    assert world.table.writes == []
    assert world.dispatcher.items == []


def test_a_sync_that_fails_halfway_is_healed_by_the_next_tick() -> None:
    world = EngineWorld(shards=4, leases=False)
    works, left = world.table.disturb, [True, True]

    def two_only(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        if not left:
            raise LeaseTableUnavailable("timed out")
        left.pop()
        return apply()

    world.table.disturb = two_only
    with pytest.raises(LeaseTableUnavailable):
        world.manager().tick()
    world.table.disturb = works
    assert world.manager().tick().created == 2
    assert claimed(world) == [SHARD, SHARD_1, SHARD_2, SHARD_3]


def test_a_create_whose_response_got_lost_is_no_trouble() -> None:
    world = EngineWorld(shards=2, leases=False)
    world.table.lose_response_of(WriteKind.CREATE)
    world.manager().tick()
    assert claimed(world) == [SHARD, SHARD_1]


# Metrics


def test_unclaimed_leases_metric_counts_leases_without_a_started_worker() -> None:
    world = EngineWorld(replace(NO_WAITING, leases_to_acquire=1), shards=3)
    world.manager().tick()
    assert world.metrics.values(Metric.UNCLAIMED_LEASES) == [2]
    assert world.metrics.values(Metric.TOTAL_LEASES) == [3]
    assert world.metrics.values(Metric.TOTAL_SHARDS) == [3]
    assert world.metrics.flushes == 1


def test_a_malformed_row_leaves_a_shard_uncared_for() -> None:
    """The alarm for total_leases below total_shards."""
    world = EngineWorld(shards=2)
    world.table.real.put_row({**encode_row(world.table.lease(SHARD_1)), "checkpoint": {"S": "yesterday"}})
    report = world.manager().tick()
    assert (report.total_leases, report.total_shards) == (1, 2)


def test_lease_deleted_by_hand_is_reported_as_a_hole_and_created_in_one_tick() -> None:
    world = EngineWorld(shards=2)
    world.table.real.apply(delete(world.table.lease(SHARD_1)))
    report = world.manager().tick()
    assert (report.holes, report.created) == (1, 1)
    assert [(line.level, line.fields) for line in world.log.lines if "without a lease" in line.message] == [
        ("warning", {"starting": str(2**127), "ending": str(2**128 - 1)})
    ]
    assert world.manager().tick().holes == 0


def test_an_ended_stream_of_leases_counts_no_ended_ones() -> None:
    world = EngineWorld()
    world.shards.split(SHARD)
    world.change_lease(checkpoint=SHARD_END, child_shard_ids=frozenset({SHARD_1, SHARD_2}))
    report = world.manager().tick()
    assert report.created == 2, "the children that the one who ended it did not create"
    assert (report.total_leases, report.total_shards) == (2, 2)


def test_the_same_seed_dispatches_the_same_items() -> None:
    def dispatched(seed: int) -> list[WorkerItem]:
        world = EngineWorld(shards=30)
        world.chance.seed(seed)
        world.manager().tick()
        return world.dispatcher.items

    assert dispatched(1) == dispatched(1)
    assert dispatched(1) != dispatched(2)


def of_the_other_kind(world: EngineWorld, stream: str, *, is_ours: bool = True, is_held: bool = True) -> None:
    """A lease that a worker holds which reads several streams, of which this is one."""
    key = f"123456789012:{stream}:1700000000:{SHARD}"
    world.table.real.put_row(
        {
            "leaseKey": {"S": key},
            "streamName": {"S": f"123456789012:{stream}:1700000000"},
            "shardId": {"S": SHARD},
            "leaseCounter": {"N": "4"},
            **({"leaseOwner": {"S": "orders-vm-1"}} if is_held else {}),
            "checkpoint": {"S": "TRIM_HORIZON"},
            **({"subletHolder": {"S": "item/1"}, "subletCounter": {"N": "4"}} if is_ours else {}),
        }
    )


@pytest.mark.parametrize("dies", [False, True])
def test_tick_waits_for_a_deployment_of_the_other_kind_to_release_or_fall_silent(
    dies: bool,
) -> None:
    """From `streams` to `stream`: both would read the stream at once. To refuse would block a rolling deployment."""
    world = EngineWorld(CONTINUOUS)
    of_the_other_kind(world, world.settings.stream)
    manager = world.manager()
    for _ in range(3):
        assert manager.tick().dispatched == ()
    (line,) = [line for line in world.log.lines if line.level == "warning"]
    assert line.fields["owners"] == ["orders-vm-1"]
    if dies:
        world.tasks.sleep(CONTINUOUS.failover_time + SECOND)
    else:
        of_the_other_kind(world, world.settings.stream, is_held=False)
    assert len(manager.tick().dispatched) == 1


def test_workers_of_the_other_kind_are_not_waited_for_by_a_fleet_at_work() -> None:
    world = EngineWorld(CONTINUOUS, shards=2)
    world.steal(SHARD, "worker-7", "item/1")
    of_the_other_kind(world, world.settings.stream)
    assert len(world.manager().tick().dispatched) == 1


@pytest.mark.parametrize(("stream", "is_ours"), [("another", True), (None, False)])
def test_a_kcl_of_several_streams_is_not_waited_for_nor_other_streams(stream: str | None, is_ours: bool) -> None:
    world = EngineWorld(CONTINUOUS)
    of_the_other_kind(world, stream or world.settings.stream, is_ours=is_ours)
    assert len(world.manager().tick().dispatched) == 1
