"""Ticks of an application that reads several streams."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

import pytest
from sublet.engine.manager.several_streams import DESCRIBED_EVERY, DESCRIBED_MAX, LISTED_EVERY
from sublet.errors import LeaseTableUnavailable, StreamAccessDenied, StreamNotFound, StreamUnavailable
from sublet.metric_names import Metric
from sublet.protocol.checkpoint import LATEST, TRIM_HORIZON
from sublet.protocol.stream_key import own_id, stream_key_of
from sublet.settings import Mode, StartKind

from tests.doubles.engine_world import most_in
from tests.doubles.several_streams import SeveralWorld

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
A_WRITE = timedelta(milliseconds=10)
"""DynamoDB's writes take less."""


def messages(world: SeveralWorld) -> list[str]:
    return [line.message for line in world.log.lines]


def test_each_stream_gets_leases_named_by_stream_and_shard_and_is_read() -> None:
    world = SeveralWorld("orders,payments", "orders", "payments", "other")
    world.put("orders", "a")
    world.put("payments", "b")
    report = world.manager().tick()
    assert (report.created, report.total_shards, report.total_leases) == (2, 2, 2)
    assert world.leases().keys() == {world.shard("orders"), world.shard("payments")}
    row = world.table.row(world.shard("orders"))
    assert row is not None
    assert (row["streamName"], row["shardId"]) == (
        {"S": str(world.key("orders"))},
        {"S": "shardId-000000000000"},
    )
    world.read()
    assert sorted(world.handler.data()) == [b"a", b"b"]
    batches = {batch.stream: batch for batch in world.handler.batches}
    assert batches.keys() == {"orders", "payments"}
    assert batches["orders"].shard_id == world.shard("orders")
    assert batches["orders"].stream_arn == "arn:aws:kinesis:us-east-1:000000000000:stream/orders"
    assert {lease.checkpoint.is_sequence_number for lease in world.leases().values()} == {True}


def test_streams_are_found_by_pattern_and_tag_and_each_starts_where_its_part_says() -> None:
    world = SeveralWorld("audit-*@LATEST,tag:team=billing", "audit-eu", "bills", "payments")
    world.tags["bills"] = {"team": "billing"}
    world.manager().tick()
    starts = {lease.lease_key: lease.checkpoint for lease in world.leases().values()}
    assert starts == {world.shard("audit-eu"): LATEST, world.shard("bills"): TRIM_HORIZON}


def test_each_stream_has_its_own_filter_and_all_of_it_is_done() -> None:
    """The records of all three are alike, so each filter shows which stream's records it was applied to."""
    wants = {name: {"Filters": [{"Pattern": {"data": [name]}}]} for name in ("first", "second")}
    criteria = json.dumps({"Streams": {"orders": wants["first"], "audit-*": None}, **wants["second"]})
    world = SeveralWorld("*", "orders", "payments", "audit-eu", filter_criteria=criteria)
    for name in world.streams:
        world.put(name, "first", "second", "third")
    world.manager().tick()
    world.read()
    handled = {batch.stream: [record.data for record in batch.records] for batch in world.handler.batches}
    assert handled == {
        "orders": [b"first"],
        "payments": [b"second"],
        "audit-eu": [b"first", b"second", b"third"],
    }
    world.manager().tick()
    world.read()
    assert len(world.handler.data()) == 5, "what is not wanted is done"


def test_a_stream_that_comes_is_read_once_it_is_found() -> None:
    world = SeveralWorld("o*", "orders", mode=Mode.CONTINUOUS)
    manager = world.manager()
    manager.tick()
    world.create("options", shards=2)
    manager.tick()
    assert len(world.leases()) == 1, "looked for a moment ago"
    world.clock.advance(world.settings.stream_discovery_interval)
    assert manager.tick().created == 2
    assert messages(world).count("stream found") == 2


def test_unlisted_stream_holds_up_no_other() -> None:
    world = SeveralWorld("orders,payments", "orders", "payments")
    world.streams["orders"].fails["list_shards"] = StreamUnavailable("not now")
    report = world.manager().tick()
    assert world.leases().keys() == {world.shard("payments")}
    assert report.created == 1
    assert "could not list a stream's shards" in messages(world)


@pytest.mark.parametrize("fault", [StreamUnavailable("not now"), StreamAccessDenied("kinesis:ListShards")])
def test_a_tick_that_can_list_no_stream_fails(fault: Exception) -> None:
    world = SeveralWorld("orders,payments", "orders", "payments")
    for stream in world.streams.values():
        stream.fails["list_shards"] = fault
    with pytest.raises(type(fault)):
        world.manager().tick()


def test_known_streams_are_read_while_the_listing_fails() -> None:
    world = SeveralWorld("o*", "orders")
    manager = world.manager()
    manager.tick()
    world.find_fails = StreamUnavailable("not now")
    world.clock.advance(10 * MINUTE)
    assert manager.tick().dispatched
    with pytest.raises(StreamUnavailable):
        world.manager().tick()


def test_refused_stream_leaves_the_others_read_and_is_read_once_allowed_again() -> None:
    """A stream of another account has to be described by itself, and its policy may be taken back."""
    world = SeveralWorld("*", "orders", "theirs")
    manager = world.manager()
    manager.tick()
    world.read()
    for what in ("find", "describe", "list_shards", "open", "poll"):
        world.streams["theirs"].fails[what] = StreamAccessDenied(f"no policy allows {what}")
    for ticking in (manager, world.manager()):  # the second has just started
        world.clock.advance(10 * MINUTE)
        world.put("orders", "a")
        assert world.shard("orders") in {claim.lease_key for item in ticking.tick().dispatched for claim in item.claims}
        world.read()
    assert world.handler.data() == [b"a", b"a"]
    assert world.leases().keys() == {world.shard("orders"), world.shard("theirs")}
    assert "could not list a stream's shards" in messages(world)
    world.streams["theirs"].fails.clear()
    world.put("theirs", "b")
    world.clock.advance(10 * MINUTE)
    manager.tick()
    world.read()
    assert world.handler.data()[2:] == [b"b"]


def test_a_stream_that_is_refused_from_the_start_is_an_error_at_once() -> None:
    world = SeveralWorld("*", "orders", "theirs")
    for what in ("find", "describe"):
        world.streams["theirs"].fails[what] = StreamAccessDenied(f"no policy allows {what}")
    with pytest.raises(StreamAccessDenied):
        world.manager().tick()


def test_a_refusal_to_list_the_streams_leaves_those_known() -> None:
    world = SeveralWorld("o*", "orders")
    manager = world.manager()
    manager.tick()
    world.find_fails = StreamAccessDenied("kinesis:ListStreams")
    world.clock.advance(10 * MINUTE)
    assert manager.tick().dispatched
    with pytest.raises(StreamAccessDenied):
        world.manager().tick()


def test_leases_of_a_stream_that_left_the_list_wait_untouched() -> None:
    world = SeveralWorld("orders,payments", "orders", "payments")
    world.manager().tick()
    world.read()
    before = world.leases()[world.shard("orders")]
    world.put("orders", "a")
    world.clock.advance(30 * MINUTE)
    for _ in range(3):
        report = world.manager("payments").tick()
        assert world.shard("orders") not in {claim.lease_key for item in report.dispatched for claim in item.claims}
        assert (report.deleted, report.total_leases) == (0, 1)
        world.clock.advance(30 * MINUTE)
    assert world.leases()[world.shard("orders")] == before


def test_different_lists_on_different_workers_delete_nothing_and_both_are_read() -> None:
    """In KCL they delete each other's progress."""
    world = SeveralWorld("orders,payments,bills", "orders", "payments", "bills")
    first, second = world.manager("orders,payments"), world.manager("payments,bills")
    for _ in range(5):
        assert (first.tick().deleted, second.tick().deleted) == (0, 0)
        world.read()
        world.clock.advance(30 * MINUTE)
    assert len(world.leases()) == 3
    known = world.sightings.load().streams
    assert all(world.clock.now() - each.named_at < world.settings.former_streams_wait for each in known.values())


def test_sightings_of_streams_in_another_list_are_kept() -> None:
    """Otherwise no dead owner of such a lease would ever be found dead."""
    world = SeveralWorld("orders,payments", "orders", "payments")
    world.manager().tick()
    for key in world.leases():
        world.table.put_row({**(world.table.row(key) or {}), "leaseOwner": {"S": "java"}})
    world.manager().tick()
    world.manager("payments").tick()
    assert world.shard("orders") in world.sightings.load().sightings


def test_own_leases_of_a_stream_that_left_are_named_so_that_a_process_releases_them() -> None:
    world = SeveralWorld("orders,payments", "orders", "payments", mode=Mode.CONTINUOUS, worker_id="me")
    world.manager().tick()
    for lease in world.leases().values():
        world.table.put_row({**(world.table.row(lease.lease_key) or {}), "leaseOwner": {"S": "me"}})
    assert world.manager().tick().left == frozenset()
    assert world.manager("payments").tick().left == {world.shard("orders")}


def test_a_deleted_stream_needs_no_worker_and_keeps_its_leases() -> None:
    world = SeveralWorld("orders,payments", "orders", "payments")
    manager = world.manager()
    manager.tick()
    orders, key = world.shard("orders"), world.key("orders")
    world.streams["orders"].real.delete()  # still found: Kinesis lists a stream that is being deleted
    found = manager.ports.streams
    world.clock.advance(LISTED_EVERY)
    assert found is not None
    report = manager.tick()
    assert (report.deleted, report.total_leases) == (0, 1)
    assert orders in world.leases()
    world.delete("orders")
    assert key not in {each.stream for each in found.find().streams}


def test_missing_stream_is_not_believed_before_a_second_answer() -> None:
    """Only if Kinesis does not describe it either. An older version of the rule cost a KCL user all positions of a
    stream.
    """
    world = SeveralWorld("orders,payments", "orders", "payments")
    manager = world.manager()
    manager.tick()
    world.streams["orders"].fails["list_shards"] = StreamNotFound("no such stream")
    world.clock.advance(LISTED_EVERY)
    assert manager.tick().total_leases == 2
    assert world.sightings.load().streams[world.key("orders")].gone_at is None
    with pytest.raises(StreamUnavailable, match="but Kinesis describes it"):  # passes by itself: no process ends for it
        world.manager("orders").tick()
    world.streams["orders"].fails["describe"] = StreamNotFound("no such stream")
    world.clock.advance(LISTED_EVERY)
    assert manager.tick().total_leases == 1
    gone_at = world.sightings.load().streams[world.key("orders")].gone_at
    assert gone_at is not None
    world.clock.advance(LISTED_EVERY)
    assert manager.tick().total_leases == 1
    assert world.sightings.load().streams[world.key("orders")].gone_at == gone_at, "as it was first seen"
    assert messages(world).count("stream is gone: its leases are not dispatched") == 1
    world.streams["orders"].fails.clear()
    world.clock.advance(LISTED_EVERY)
    assert manager.tick().total_leases == 2, "it is back"


def test_a_stream_that_is_gone_is_described_only_to_be_sure() -> None:
    world = SeveralWorld("orders,payments", "orders", "payments")
    for call in ("list_shards", "describe"):
        world.streams["orders"].fails[call] = StreamNotFound("no such stream")
    world.manager().tick()
    assert Counter((what, name) for _, what, name in world.calls if what == "describe") == {
        ("describe", "orders"): 1,
        ("describe", "payments"): 1,
    }


def test_each_stream_is_described_every_five_minutes() -> None:
    world = SeveralWorld("orders,payments", "orders", "payments")
    manager = world.manager()
    for _ in range(3):
        manager.tick()
        world.clock.advance(DESCRIBED_EVERY / 2)
    assert Counter(name for _, what, name in world.calls if what == "describe") == {
        "orders": 2,
        "payments": 2,
    }


def test_a_stream_with_leases_is_listed_whole_and_a_new_one_from_where_it_starts() -> None:
    world = SeveralWorld("orders@LATEST", "orders")
    manager = world.manager()
    manager.tick()
    world.clock.advance(LISTED_EVERY)
    manager.tick()
    asked = world.streams["orders"].listed_at
    assert [None if at is None else at.kind for at in asked] == [StartKind.LATEST, None]


def test_a_stream_created_again_is_another_with_leases_of_its_own() -> None:
    world = SeveralWorld("orders", "orders")
    manager = world.manager()
    manager.tick()
    world.put("orders", "a")
    manager.tick()
    world.read()
    old = world.shard("orders")
    world.delete("orders")
    world.clock.advance(10 * MINUTE)
    world.create("orders")
    world.put("orders", "b")
    report = manager.tick()
    new = world.shard("orders")
    assert new != old
    assert world.leases().keys() == {old, new}
    world.read(report)
    assert world.handler.data() == [b"a", b"b"]


def test_a_reshard_stays_within_its_stream() -> None:
    """Children and parents are named in the same stream, by their own ids in the rows, and the other stream is left
    alone.
    """
    world = SeveralWorld("orders,payments", "orders", "payments")
    manager = world.manager()
    world.put("orders", "a")
    world.streams["orders"].real.split("shardId-000000000000")
    for _ in range(6):
        world.read(manager.tick())
        world.clock.advance(LISTED_EVERY)
    world.put("orders", *"bcdefgh")
    world.read(manager.tick())
    world.clock.advance(LISTED_EVERY)
    manager.tick()
    assert sorted(world.handler.data()) == [bytes([letter]) for letter in b"abcdefgh"]
    child = world.table.row(world.shard("orders", 1))
    assert child is not None
    assert child["parentShardId"] == {"SS": ["shardId-000000000000"]}
    assert {own_id(key) for key in world.leases() if stream_key_of(key) == world.key("payments")} == {
        "shardId-000000000000"
    }
    assert world.shard("orders") not in world.leases(), "it was cleaned up after its children began"


def test_tick_over_200_streams_takes_ten_seconds_and_30_calls_a_second_at_most() -> None:
    """The first tick also writes a lease and a note of each: one after the other, these alone would take four
    seconds.
    """
    names = [f"orders-{n:03}" for n in range(200)]
    world = SeveralWorld("orders-*", *names)
    world.write_takes = A_WRITE
    manager = world.manager()
    for turn in range(8):
        began = world.clock.steady()
        report = manager.tick()
        took = world.clock.steady() - began
        assert took < 10 * SECOND, turn
        assert most_in(SECOND, [at for at, _, _ in world.calls]) < 30, turn
        counted = world.counted()
        assert sum(counted.values()) < 300, counted
        assert len(report.dispatched) == 0 or turn < 5, "every quiet shard was asked in time"
        world.read(report)
        world.counted()
        world.clock.advance(MINUTE)
    assert len(world.leases()) == 200
    described = [known for known in world.sightings.load().streams.values() if known.placement.last is not None]
    assert len(described) == 8 * DESCRIBED_MAX


def test_lease_that_cannot_be_created_holds_up_no_other_stream() -> None:
    world = SeveralWorld("orders,payments,bills", "orders", "payments", "bills")
    world.refused = frozenset({"orders"})
    with pytest.raises(LeaseTableUnavailable):
        world.manager().tick()
    assert world.leases().keys() == {world.shard("payments"), world.shard("bills")}
    world.refused = frozenset()
    assert world.manager().tick().created == 1


def test_a_stream_whose_other_shards_are_quiet_is_as_far_behind_as_they_are() -> None:
    """A lag of zero is put for it, since the least lagging of its shards is at its tip. No stream that is quiet as a
    whole is put one, for it would be billed for that.
    """
    world = SeveralWorld("orders,payments")
    world.create("orders", shards=2)
    world.create("payments")
    world.manager().tick()
    world.read()
    world.clock.advance(MINUTE)
    busy = world.streams["orders"].real.list_shards()[1]
    world.streams["orders"].real.put("a", b"a", busy.hash_key_range.starting)
    world.metrics.measurements.clear()
    world.manager().tick()
    (item,) = world.dispatcher.take()
    assert [claim.lease_key for claim in item.claims] == [world.shard("orders", 1)]
    lags = [
        (put.value, put.shard_id)
        for put in world.metrics.measurements
        if put.metric is Metric.MILLIS_BEHIND_LATEST and put.shard_id is not None
    ]
    assert lags == [(0, world.shard("orders", 0))]


def test_stream_stalled_age_is_put_only_while_the_stream_stands_still() -> None:
    world = SeveralWorld("orders,payments", "orders", "payments")
    world.put("orders", "a")
    for _ in range(12):
        world.manager().tick()
        world.dispatcher.take()
        world.clock.advance(MINUTE)
    stalled = [put for put in world.metrics.measurements if put.metric is Metric.STREAM_STALLED_AGE]
    assert {put.shard_id for put in stalled} == {world.shard("orders")}
    assert max(put.value for put in stalled) >= 5 * 60_000
