"""`leases=hold`: a query shares an application's leases with a fleet, and none is missed or repeated at a hand-over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import NoReturn

import pytest
from sublet.decisions.manager.joins_and_drains import Announcement, AnnouncementKind
from sublet.errors import (
    DataGap,
    LeaseHeldElsewhere,
    LeaseTableUnavailable,
    OffsetMalformed,
    SettingsError,
    StreamUnavailable,
)
from sublet.ports import Applied
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import LeaseWrite, acquire, checkpoint, release
from sublet.protocol.shard import Shard
from sublet.protocol.worker_report import ReportPlace, WorkerReport, decode_report, encode_report
from sublet.settings import StartPosition
from sublet.spark.keeper.keeper import ASKED_WITHIN, FIRST_PLAN_WITHIN
from sublet.spark.read.counting import NO_LIMIT, BatchShare
from sublet.spark.source.leased_shards import WITHOUT_LEASES
from sublet.system.clock import SystemClock
from sublet.testing.memory import MemoryLeaseTable, MemoryStream

from tests.spark.held_query import WORKER, HeldQuery
from tests.spark.memory_query import MemoryQuery, RealClock, Row, SleepingClock, WatchedStream, options
from tests.spark.test_follow import consume, shard_id

SECOND = timedelta(seconds=1)


def held_query(shards: int = 1, /, **given: str) -> HeldQuery:
    clock = SleepingClock()
    stream = WatchedStream(MemoryStream(shards, clock=clock, name="orders"), clock)
    return HeldQuery(stream, clock, MemoryLeaseTable(), **given)


def row(table: MemoryLeaseTable, key: str) -> Lease:
    lease = table.get(key)
    assert isinstance(lease, Lease), key
    return lease


def put_row(table: MemoryLeaseTable, lease: Lease) -> Lease:
    """As another owner writes it, without conditions."""
    table.put_row(encode_row(lease))
    return lease


def put(held: HeldQuery, count: int, first: int = 0) -> list[str]:
    """Returns their sequence numbers."""
    data = [b"%d" % number for number in range(first, first + count)]
    return held.query.stream.inner.put_all((each.decode(), each) for each in data)


def put_at_the_top(held: HeldQuery, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        held.query.stream.inner.put("k", b"high-%d" % number, explicit_hash_key=2**128 - 1)


def apply(table: MemoryLeaseTable, write: LeaseWrite) -> Lease:
    result = table.apply(write)
    assert isinstance(result, Applied)
    return result.lease


def take(table: MemoryLeaseTable, key: str, worker_id: str) -> Lease:
    return apply(table, acquire(row(table, key).fence, worker_id, worker_id))


def beating(held: HeldQuery, lease: Lease) -> Callable[[], None]:
    """Another owner of the lease, who heartbeats whenever time passes, until told to stop."""
    put_row(held.table, lease)
    sleep, is_alive = held.query.clock.sleep, [True]

    def sleep_and_beat(pause: timedelta) -> None:
        sleep(pause)
        if is_alive:
            at = row(held.table, lease.lease_key)
            put_row(held.table, replace(at, lease_counter=at.lease_counter + 1))

    held.query.clock.sleep = sleep_and_beat  # type: ignore[method-assign]
    held.keeper.sleep = sleep_and_beat
    return is_alive.clear


def wait_a_second(held: HeldQuery, *, rerun: bool = False) -> list[Row]:
    held.query.clock.sleep(SECOND)
    held.keeper.work()
    if rerun and len(held.query.rows) < len(held.query.log):
        return held.run()
    return held.batch() or []


def unplug(table: MemoryLeaseTable) -> None:
    """Its network is down, except for the test's own reads."""

    def down(*_: object) -> NoReturn:
        raise LeaseTableUnavailable("down")

    vars(table).update(scan=down, apply=down)


def plug_in(table: MemoryLeaseTable) -> None:
    for name in ("scan", "apply"):
        del vars(table)[name]


def test_leases_pass_between_fleet_and_query_through_a_reshard_and_aggregate() -> None:
    """The library's own process, then Spark, then the process, then Spark again with the same checkpoint."""
    inner, table = MemoryStream(1, clock=SystemClock(), name="orders"), MemoryLeaseTable()
    by_fleet: list[bytes] = []
    produced: list[bytes] = []

    def produce(count: int) -> None:
        for n in range(count):
            number = b"%d" % len(produced)
            if n % 3:
                inner.put(number.decode(), number)
                produced.append(number)
            else:
                data = [b"%d" % (len(produced) + m) for m in range(5)]
                inner.put("k", aggregate([("k", None, each) for each in data]))
                produced.extend(data)

    def fleet() -> None:
        wanted = len(produced)
        consume(
            inner,
            table,
            lambda batch: by_fleet.extend(r.data for r in batch.records),
            lambda: len(by_fleet) + len(by_spark) >= wanted,
        )

    by_spark: list[bytes] = []
    produce(30)
    fleet()
    produce(30)
    held = HeldQuery(WatchedStream(inner, SystemClock()), RealClock(), table)
    low, high = inner.split(shard_id(0))
    produce(30)
    by_spark += [r.data for r in held.drain()]
    assert len(by_fleet) + len(by_spark) == len(produced)
    assert row(table, low).lease_owner == WORKER
    held.end()
    assert row(table, low).lease_owner is None
    inner.merge(low, high)
    produce(30)
    fleet()
    produce(30)
    held.start()
    by_spark += [r.data for r in held.drain()]
    held.end()
    produce(30)
    fleet()
    times = Counter(by_fleet + by_spark)
    assert set(times) == set(produced)
    assert set(times.values()) == {1}
    assert by_fleet
    assert by_spark


def test_parent_of_a_merge_is_read_fully_and_ended_once_the_other_has_a_lease() -> None:
    """The other parent is the child of a shard that another owner reads: the checkpoint can be written, but not the
    end yet."""
    held = held_query(2)
    stream = held.query.stream.inner
    put_row(held.table, Lease(shard_id(0), TRIM_HORIZON, hash_key_range=stream.list_shards()[0].hash_key_range))
    theirs = Lease(shard_id(1), TRIM_HORIZON, lease_owner="java", lease_counter=5)
    _, other = stream.split(shard_id(1))
    numbers = [stream.put("k", b"%d" % n, explicit_hash_key=0) for n in range(5)]
    child = stream.merge(shard_id(0), shard_id(2))
    assert (other, child) == (shard_id(3), shard_id(4))
    stop = beating(held, theirs)
    assert [r.data for r in held.drain()] == [b"0", b"1", b"2", b"3", b"4"]
    assert row(held.table, shard_id(0)).checkpoint == Checkpoint(numbers[-1])
    assert row(held.table, shard_id(0)).lease_owner == WORKER
    stop()
    held.query.stream.inner.put("k", b"child", explicit_hash_key=0)
    held.query.clock.sleep(10 * SECOND)
    assert [r.data for r in held.drain()] == [b"child"]
    held.end()
    assert row(held.table, shard_id(0)).is_ended
    assert row(held.table, shard_id(0)).child_shard_ids == {child}


@pytest.mark.parametrize(
    "limit", [NO_LIMIT, BatchShare(records=2), BatchShare(span=SECOND)], ids=["all", "rows", "span"]
)
@pytest.mark.parametrize("age", [timedelta(0), 5 * SECOND, timedelta(minutes=5)], ids=str)
@pytest.mark.parametrize("has_targets", [False, True], ids=["goes on", "what is there"])
def test_parent_of_a_merge_is_read_fully_however_old_its_last_record_is(
    limit: BatchShare, age: timedelta, has_targets: bool
) -> None:
    """While the other parent has no lease, its batches end at its records, within their limit."""
    held = held_query(2)
    stream = held.query.stream.inner
    put_row(held.table, Lease(shard_id(0), TRIM_HORIZON, hash_key_range=stream.list_shards()[0].hash_key_range))
    beating(held, Lease(shard_id(1), TRIM_HORIZON, lease_owner="java", lease_counter=5))
    other, _ = stream.split(shard_id(1))
    numbers = [stream.put("k", b"%d" % n, explicit_hash_key=0) for n in range(5)]
    stream.merge(shard_id(0), other)
    held.query.clock.sleep(age)
    held.query.restart()
    if has_targets:
        held.query.driver.set_targets()
    assert [r.data for r in held.drain(limit=limit)] == [b"0", b"1", b"2", b"3", b"4"]
    if limit.records is not None:
        assert max(map(len, held.query.rows)) == limit.records
    assert row(held.table, shard_id(0)).checkpoint == Checkpoint(numbers[-1])
    before = held.query.stream.calls["poll"]
    assert held.drain(limit=limit) == []
    assert held.query.stream.calls["poll"] >= before + 3, "calls pace a query that has nothing else to look into"


@pytest.mark.parametrize(("committed", "is_readable"), [(True, True), (False, True), (True, False)])
def test_the_last_batch_counts_exactly_if_spark_has_committed_it(committed: bool, is_readable: bool) -> None:
    """With a folder that only Spark can read, the keeper only knows what Spark itself has told: the batch before."""
    held = held_query()
    held.commits.is_readable = is_readable
    first = put(held, 10)
    held.batch()
    second = put(held, 10, first=10)
    held.query.plan()
    held.query.run()
    if committed:
        held.commit()
    held.end()
    lease = row(held.table, shard_id(0))
    assert lease.lease_owner is None
    assert lease.checkpoint == Checkpoint(second[-1] if committed and is_readable else first[-1])


def test_query_killed_between_the_sinks_and_sparks_commit_repeats_nothing() -> None:
    """The sink has the batch, but Spark's folder does not say so. The repeated batch has the same number and the same
    rows; the next owner of the leases starts after it."""
    held = held_query()
    put(held, 10)
    held.batch()
    second = put(held, 10, first=10)
    held.query.plan()
    in_the_sink = held.query.run()
    held.end()
    held.start()
    assert held.run() == in_the_sink
    held.end()
    assert row(held.table, shard_id(0)).checkpoint == Checkpoint(second[-1])


def test_failed_batch_is_repeated_without_what_another_worker_handled() -> None:
    """Spark has fixed its range for ever; meanwhile the fleet handles a part of it and gives the lease back, and
    Spark continues."""
    held = held_query(2)
    low = [held.query.stream.inner.put("k", b"low-%d" % n, explicit_hash_key=0) for n in range(10)]
    put_at_the_top(held, 10)
    held.query.clock.sleep(5 * SECOND)
    assert held.query.plan()
    held.end()
    theirs = take(held.table, shard_id(0), "fleet")
    theirs = apply(held.table, checkpoint(theirs, Checkpoint(low[3])))
    apply(held.table, release(theirs))
    held.start()
    asked_before = held.query.run()
    assert held.query.run() == asked_before, "as of a stream that is joined with itself"
    again = [r.data for r in held.run()]
    assert again == [b"low-%d" % n for n in range(4, 10)] + [b"high-%d" % n for n in range(10)]
    held.end()
    assert row(held.table, shard_id(0)).checkpoint == Checkpoint(low[-1])


def test_a_batch_that_failed_waits_while_another_owner_is_about_to_handle_it() -> None:
    """If it were skipped and committed, its range would count as handled although no worker has handled it."""
    held = held_query()
    numbers = put(held, 10)
    held.query.plan()
    held.end()
    theirs = take(held.table, shard_id(0), "fleet")
    stop = beating(held, theirs)
    held.start()
    with pytest.raises(LeaseHeldElsewhere, match=f"{shard_id(0)} by fleet at TRIM_HORIZON"):
        held.run()
    moved = apply(held.table, checkpoint(row(held.table, shard_id(0)), Checkpoint(numbers[-1])))
    assert held.run() == [], "the owner is past it"
    stop()
    put(held, 3, first=10)
    apply(held.table, release(row(held.table, moved.lease_key)))
    assert [r.data for r in held.drain()] == [b"10", b"11", b"12"]


def test_a_stolen_lease_is_read_no_more_and_its_batch_is_checkpointed_late() -> None:
    held = held_query(2)
    low = [held.query.stream.inner.put("k", b"low-%d" % n, explicit_hash_key=0) for n in range(5)]
    put_at_the_top(held, 5)
    held.query.plan()
    theirs = take(held.table, shard_id(0), "thief")  # in mid-batch
    held.run()
    held.query.stream.inner.put("k", b"theirs", explicit_hash_key=0)
    put_at_the_top(held, 5, first=5)
    assert {r.shard_id for r in held.drain()} == {shard_id(1)}
    assert row(held.table, shard_id(0)).checkpoint == Checkpoint(low[-1])
    assert row(held.table, shard_id(0)).lease_owner == "thief"
    assert row(held.table, shard_id(0)).lease_counter == theirs.lease_counter, "the thief's fence holds"

    number = held.query.stream.inner.put("k", b"theirs too", explicit_hash_key=0)
    theirs = row(held.table, shard_id(0))  # as the thief finds it when it looks again
    apply(held.table, release(apply(held.table, checkpoint(theirs, Checkpoint(number)))))
    held.query.stream.inner.put("k", b"ours again", explicit_hash_key=0)
    held.query.clock.sleep(10 * SECOND)
    assert [r.data for r in held.drain()] == [b"ours again"]


def test_query_whose_leases_others_hold_pauses_between_its_plans() -> None:
    """Spark asks again after 10 ms, also for hours. No shard that is looked into makes the query wait."""
    held = held_query(2)
    put(held, 5)
    held.drain()
    stops = [beating(held, take(held.table, shard_id(shard), "fleet")) for shard in range(2)]
    held.query.clock.sleep(10 * SECOND)
    assert not held.query.plan()
    assert not held.query.driver._portion.held  # type: ignore[attr-defined]
    since = held.query.clock.now()
    for _ in range(10):
        assert not held.query.plan()
    assert held.query.clock.now() - since >= 10 * WITHOUT_LEASES
    for stop in stops:
        stop()


def test_a_checkpoint_moved_on_by_hand_is_honoured_and_one_moved_back_is_not() -> None:
    """The query's offsets say what it has handled, and the later of both counts."""
    held = held_query()
    first = put(held, 5)
    assert len(held.drain()) == 5
    skipped = put(held, 5, first=5)
    put_row(held.table, replace(row(held.table, shard_id(0)), checkpoint=Checkpoint(skipped[2])))
    held.query.clock.sleep(10 * SECOND)
    assert [record.data for record in held.drain()] == [b"8", b"9"]

    put_row(held.table, replace(row(held.table, shard_id(0)), checkpoint=Checkpoint(first[0])))
    held.query.clock.sleep(10 * SECOND)
    (last,) = put(held, 1, first=10)
    assert [record.data for record in held.drain()] == [b"10"]
    held.drain()
    assert row(held.table, shard_id(0)).checkpoint == Checkpoint(last)


def test_a_java_worker_that_takes_one_writes_no_holder_and_is_respected() -> None:
    """A row write by Java's rules: owner and counter, nothing of ours."""
    held = held_query()
    put(held, 5)
    held.drain()
    java = replace(row(held.table, shard_id(0)), lease_owner="java-1")
    java = replace(java, lease_counter=java.lease_counter + 1)
    put_row(held.table, java)
    number = put(held, 5, first=5)[-1]
    stop = beating(held, java)
    held.query.clock.sleep(3 * SECOND)  # by our next heartbeat we know
    assert held.drain() == []
    assert row(held.table, shard_id(0)).lease_owner == "java-1"
    stop()
    at = row(held.table, shard_id(0))
    put_row(held.table, replace(at, checkpoint=Checkpoint(number), lease_counter=at.lease_counter + 1))
    put(held, 5, first=10)
    held.query.clock.sleep(15 * SECOND)  # Java does not release: its lease expires
    rows = [row for _ in range(20) for row in wait_a_second(held)]
    assert [r.data for r in rows] == [b"10", b"11", b"12", b"13", b"14"]


def test_a_kcl_3_leader_asks_for_a_lease_and_gets_it_between_two_batches() -> None:
    held = held_query()
    first = put(held, 5)
    held.drain()
    second = put(held, 5, first=5)
    held.query.plan()
    ours = row(held.table, shard_id(0))
    put_row(held.table, replace(ours, lease_owner="java-2", checkpoint_owner=WORKER))
    held.query.clock.sleep(3 * SECOND)
    held.keeper.work()
    assert row(held.table, shard_id(0)).checkpoint_owner == WORKER, "not in mid-batch"
    assert row(held.table, shard_id(0)).checkpoint == Checkpoint(first[-1])
    held.run()
    held.batch()
    after = row(held.table, shard_id(0))
    assert (after.lease_owner, after.checkpoint_owner) == ("java-2", None)
    assert after.checkpoint == Checkpoint(second[-1])
    put(held, 5, first=10)
    assert held.batch() is None


def assign(held: HeldQuery, worker_id: str) -> None:
    """As a KCL 3 leader does it."""
    put_row(held.table, replace(row(held.table, shard_id(0)), lease_owner=worker_id, checkpoint_owner=WORKER))


def test_a_lease_asked_for_while_a_plan_looks_is_handed_over_after_its_batch() -> None:
    held = held_query()
    put(held, 5)
    held.drain()
    number = put(held, 5, first=5)[-1]
    held.at_the_next_look(lambda: assign(held, "java-2"))
    assert held.query.plan()
    assert row(held.table, shard_id(0)).actual_owner == WORKER
    assert len(held.run()) == 5
    assert held.batch() is None
    after = row(held.table, shard_id(0))
    assert (after.lease_owner, after.checkpoint_owner) == ("java-2", None)
    assert after.checkpoint == Checkpoint(number)


def test_a_lease_asked_for_while_a_plan_finds_nothing_is_handed_over_at_once() -> None:
    held = held_query()
    put(held, 5)
    held.drain()
    held.at_the_next_look(lambda: assign(held, "java-2"))
    assert not held.query.plan()
    assert row(held.table, shard_id(0)).actual_owner == WORKER
    held.keeper.work()
    assert row(held.table, shard_id(0)).actual_owner == "java-2"


def test_a_parent_ends_only_when_its_last_batch_is_committed_and_its_children_exist() -> None:
    held = held_query()
    put(held, 5)
    children = held.query.stream.inner.split(shard_id(0))
    held.query.plan()
    held.query.run()
    assert held.table.get(children[0]) is None
    assert not row(held.table, shard_id(0)).is_ended
    held.commit()
    held.query.plan()
    parent = row(held.table, shard_id(0))
    assert parent.is_ended
    assert parent.child_shard_ids == set(children)
    assert parent.lease_owner is None
    assert {row(held.table, child).lease_owner for child in children} == {WORKER}
    assert {row(held.table, child).parent_shard_ids for child in children} == {frozenset({shard_id(0)})}


def test_repeated_batch_waits_for_a_shard_whose_row_cannot_be_read() -> None:
    """Whether its records are handled is not known before the row is repaired."""
    held = held_query()
    put(held, 10)
    held.query.plan()
    held.end()
    known = dict(held.table.rows()[shard_id(0)])
    held.table.put_row({**known, "leaseCounter": {"S": "seven"}})
    held.start()
    with pytest.raises(LeaseHeldElsewhere, match=rf"{shard_id(0)} \(its row cannot be read: .*leaseCounter"):
        held.run()
    held.table.put_row(known)
    held.query.clock.sleep(10 * SECOND)
    assert len(held.run()) == 10


@pytest.mark.parametrize("fails", [True, False])
def test_repeated_batch_tells_of_a_shard_that_is_gone_with_its_lease(fails: bool) -> None:
    """A fleet's manager has deleted the lease while the query was down: nobody knows whether it was handled."""
    held = held_query(failOnDataLoss=str(fails))
    put(held, 10)
    held.query.plan()
    held.end()
    for child in held.query.stream.inner.split(shard_id(0)):
        put_row(held.table, Lease(child, TRIM_HORIZON, parent_shard_ids=frozenset({shard_id(0)})))
    held.table.delete_row(shard_id(0))
    held.start()
    assert held.query.run() == [], "its lease was cleaned up when it was handled to its end: Kinesis knows the shard"
    held.query.rows.pop()
    held.end()
    held.query.clock.sleep(timedelta(hours=30))
    held.query.stream.inner.trim(held.query.clock.now() - timedelta(hours=24))
    held.start()
    if fails:
        with pytest.raises(DataGap, match=f"{shard_id(0)}, and neither the shard nor its lease is there"):
            held.run()
    else:
        assert held.run() == []
        assert "data gap" in held.query.memory_log.messages("warning")


def test_many_shards_that_end_at_once_leave_the_others_their_heartbeats() -> None:
    held = held_query(201)
    last = shard_id(200)
    held.query.stream.inner.put_all((str(n), b"%d" % n) for n in range(5000))
    held.drain()
    for number in range(200):
        held.query.stream.inner.split(shard_id(number))
    held.query.plan()
    held.run()
    counters, clock, apply_now = (
        {row(held.table, last).lease_counter: held.query.clock.now()},
        held.query.clock,
        held.table.apply,
    )

    def apply_slowly(write: LeaseWrite) -> object:
        clock.sleep(timedelta(milliseconds=10))
        counters.setdefault(row(held.table, last).lease_counter, clock.now())
        return apply_now(write)

    held.table.apply = apply_slowly  # type: ignore[method-assign,assignment]
    began = clock.now()
    held.query.plan()
    assert all(row(held.table, shard_id(number)).is_ended for number in range(200))
    moments = [began, *counters.values(), clock.now()]
    assert max(later - one for one, later in pairwise(moments)) < timedelta(seconds=6), "its failover time"
    assert clock.now() - began > timedelta(seconds=10)


def test_children_are_taken_with_their_parents_end_though_a_look_was_under_way() -> None:
    """A run for what is available would end without them: nothing else is left to read."""
    held = held_query()
    put(held, 5)
    children = held.query.stream.inner.split(shard_id(0))
    put(held, 5, first=5)
    held.query.driver.set_targets()
    held.query.plan()
    held.run()
    held.keeper._taker.begin_look()
    assert held.keeper._taker._looking is not None
    held.keeper._taker._looking.result()
    assert held.query.plan()
    assert {row(held.table, child).lease_owner for child in children} == {WORKER}
    assert len(held.run()) == 5


def test_keeper_creates_no_children_again_after_another_owner_ended_the_shard() -> None:
    """It had already listed the shards. Meanwhile parent and children were read to their ends, and their rows cleaned
    up."""
    held = held_query()
    put(held, 5)
    stream, table = held.query.stream, held.table
    low, high = stream.inner.split(shard_id(0))
    held.query.plan()
    held.run()
    listed, has_slept = stream.list_shards, False

    def list_shards(at: StartPosition | None = None) -> tuple[Shard, ...]:
        nonlocal has_slept
        shards = listed(at)
        if not has_slept:
            has_slept = True
            held.query.clock.sleep(10 * SECOND)
            merged = stream.inner.merge(low, high)
            put_row(
                table,
                Lease(merged, TRIM_HORIZON, lease_owner="fleet", parent_shard_ids=frozenset({low, high})),
            )
            table.delete_row(shard_id(0))
        return shards

    stream.list_shards = list_shards  # type: ignore[method-assign]
    held.query.plan()
    assert has_slept
    assert [lease.lease_key for lease in table.scan().leases] == [shard_id(3)]
    assert "lease lost" in held.query.memory_log.messages("warning")


def test_killed_query_resumes_from_its_last_commit_once_its_leases_expire() -> None:
    held = held_query()
    numbers = put(held, 5)
    held.drain()
    put(held, 5, first=5)
    held.query.plan()
    at = row(held.table, shard_id(0))
    assert at.checkpoint == Checkpoint(numbers[-1])
    held.start()  # everything was killed, and nothing handed back
    rows = [row for _ in range(20) for row in wait_a_second(held, rerun=True)]
    assert [r.data for r in rows] == [b"5", b"6", b"7", b"8", b"9"]


def test_an_idle_shard_that_changes_hands_is_not_walked_a_second_time() -> None:
    """The row carries the proof from one owner to the next, next to its checkpoint."""
    advance, day = timedelta(minutes=5), timedelta(hours=20)
    held = held_query()
    held.query.stream.inner = MemoryStream(
        1, clock=held.query.clock, throttled=True, name="orders", advance=lambda: advance
    )
    held.query.restart()
    numbers = put(held, 5)
    held.drain()
    held.query.clock.sleep(day)
    held.start()
    held.drain()
    held.end()
    left = row(held.table, shard_id(0))
    assert left.lease_owner is None
    assert left.checkpoint == Checkpoint(numbers[-1])
    assert left.quiet_until is not None
    assert held.query.clock.now() - left.quiet_until < 2 * advance

    def polls_of_a_new_query() -> int:
        new = HeldQuery(held.query.stream, held.query.clock, held.table)
        before = new.query.stream.calls["poll"]
        assert new.drain() == []
        return new.query.stream.calls["poll"] - before

    assert polls_of_a_new_query() < 20
    held.table.put_row(encode_row(replace(row(held.table, shard_id(0)), quiet=None, lease_owner=None)))
    assert polls_of_a_new_query() > day / advance, "without it the whole day is"


def test_available_now_waits_for_the_leases_of_a_run_that_was_killed() -> None:
    held = held_query(2)
    put(held, 10)
    held.drain()
    put(held, 10, first=10)
    held.start()
    held.query.driver.set_targets()
    assert len(held.drain(idle=1)) == 10


def test_available_now_reads_what_is_left_to_a_process_that_ended_as_it_began() -> None:
    """A process that has announced itself counts in the fair share for a few seconds, though it takes nothing."""
    held = held_query(4)
    put(held, 40)
    held.sightings.announce("fleet-1", Announcement(AnnouncementKind.JOINS, held.query.clock.now()))
    held.query.driver.set_targets()
    assert len(held.drain(idle=1)) == 40


@pytest.mark.parametrize("call", ["list_shards", "scan"])
def test_available_now_reads_children_though_one_call_for_their_leases_was_refused(call: str) -> None:
    """Nothing else is left to read, so that the run would end as if there were nothing."""
    held = held_query()
    put(held, 5)
    held.query.stream.inner.split(shard_id(0))
    put(held, 5, first=5)
    held.query.driver.set_targets()
    assert held.batch()
    calls = held.query.stream if call == "list_shards" else held.table

    def refuse_once(*_: object) -> NoReturn:
        del vars(calls)[call]
        raise StreamUnavailable("down") if call == "list_shards" else LeaseTableUnavailable("down")

    vars(calls)[call] = refuse_once
    assert len(held.drain(idle=1)) == 5
    assert call not in vars(calls)


def test_available_now_ends_though_a_shards_children_are_not_listed_and_tells_of_it() -> None:
    held = held_query()
    put(held, 5)
    held.query.stream.inner.split(shard_id(0))
    held.query.driver.set_targets()
    assert held.batch()
    shards = held.query.stream.inner.list_shards()
    vars(held.query.stream)["list_shards"] = lambda **_: shards[:1]
    assert held.drain(idle=1) == []
    [told] = [each for each in held.query.memory_log.lines if "goes on without leases" in each.message]
    assert told.fields == {"leases": shard_id(0)}


def test_available_now_tells_of_a_lease_that_pauses_because_its_owners_crash() -> None:
    held = held_query(2)
    put(held, 10)
    held.table.put_row(encode_row(Lease(shard_id(1), TRIM_HORIZON, crashes=9)))
    held.query.driver.set_targets()
    assert 0 < len(held.drain(idle=1)) < 10
    [told] = [each for each in held.query.memory_log.lines if "goes on without leases" in each.message]
    assert told.fields == {"leases": shard_id(1)}


@pytest.mark.parametrize("owner", ["java-1", WORKER])
def test_available_now_that_can_read_nothing_because_of_other_owners_fails(owner: str) -> None:
    """Another live run of the query is another owner. Without an error, the run would seem to have found nothing."""
    held = held_query()
    put(held, 10)
    stop = beating(held, Lease(shard_id(0), TRIM_HORIZON, lease_owner=owner, lease_counter=5))
    held.query.restart()
    held.query.driver.set_targets()
    with pytest.raises(LeaseHeldElsewhere, match=f"{shard_id(0)} by {owner} at TRIM_HORIZON"):
        held.query.plan()
    stop()
    held.start()
    held.query.driver.set_targets()
    assert len(held.drain(idle=1)) == 10


@pytest.mark.parametrize("has_planned", [True, False])
def test_a_query_that_asks_nothing_any_more_lets_its_leases_go(has_planned: bool) -> None:
    """Spark does not stop the source of a query that fails between its sources' preparations. On the next request,
    the keeper takes leases again."""
    held = held_query()
    numbers = put(held, 5)
    if has_planned:
        held.drain()
    else:
        assert not held.keeper.unsettled()
    bound = ASKED_WITHIN if has_planned else FIRST_PLAN_WITHIN
    for _ in range(10):
        held.query.clock.sleep(bound / 10)
        assert row(held.table, shard_id(0)).lease_owner == WORKER
        held.keeper.work()
    held.query.clock.sleep(SECOND)
    held.keeper.work()
    held.query.clock.sleep(timedelta(minutes=5))
    held.keeper.work()
    assert row(held.table, shard_id(0)).lease_owner is None
    assert row(held.table, shard_id(0)).checkpoint == (Checkpoint(numbers[-1]) if has_planned else TRIM_HORIZON)
    put(held, 5, first=5)
    rows = [row for _ in range(5) for row in wait_a_second(held)]
    assert len(rows) == (5 if has_planned else 10)


def test_two_applications_and_a_query_without_leases_read_one_stream_whole_each() -> None:
    held = held_query(3)
    other = HeldQuery(held.query.stream, held.query.clock, MemoryLeaseTable(), application="orders-mail")
    alone = MemoryQuery(held.query.stream, held.query.clock, options())
    for n in range(5):
        put(held, 20, first=20 * n)
        assert held.batch()
        assert other.batch()
        assert alone.plan()
        alone.run()
    held.query.clock.sleep(5 * SECOND)
    for rows in (held.query.all_rows + held.drain(), other.query.all_rows + other.drain(), alone.run_all()):
        assert sorted(int(r.data) for r in rows) == list(range(100))


def test_latest_is_pinned_in_the_row_before_anything_is_read() -> None:
    held = held_query(startPosition="LATEST")
    put(held, 5)
    held.query.clock.sleep(SECOND)
    held.batch()
    pinned = row(held.table, shard_id(0)).start_at
    assert pinned is not None
    held.end()
    held.query.clock.sleep(SECOND)
    put(held, 5, first=5)
    held.query.clock.sleep(5 * SECOND)
    held.start()
    assert [r.data for r in held.drain()] == [b"5", b"6", b"7", b"8", b"9"]


def test_a_checkpoint_folder_of_another_query_is_refused() -> None:
    held = held_query()
    put(held, 5)
    held.query.plan()
    held.query.run()  # committed elsewhere
    with pytest.raises(SettingsError, match=r"checkpointLocation = '/data/audit/checkpoint'.*driver's own disk"):
        held.query.plan()


def test_a_checkpoint_folder_that_only_spark_can_read_is_told_of_once() -> None:
    held = held_query()
    held.commits.is_readable = False
    for n in range(3):
        put(held, 5, first=5 * n)
        assert held.batch()
    [told] = [each for each in held.query.memory_log.lines if "commits cannot be read" in each.message]
    assert told.fields == {"checkpointLocation": "/data/audit/checkpoint"}


def test_a_checkpoint_of_another_way_with_leases_is_refused() -> None:
    held = held_query()
    put(held, 5)
    held.drain()
    alone = MemoryQuery(held.query.stream, held.query.clock, options())
    alone.log = held.query.log
    with pytest.raises(OffsetMalformed, match="with the leases of orders-audit, but the query runs without leases"):
        alone.plan()


def test_a_database_out_of_reach_for_a_while_loses_nothing() -> None:
    """Writes fail, then succeed: the checkpoint is written then, and the leases are still ours."""
    held = held_query()
    put(held, 5)
    held.drain()
    numbers = put(held, 5, first=5)
    held.batch()
    unplug(held.table)
    put(held, 5, first=10)
    held.keeper._taker._look_at = held.query.clock.now()
    assert held.query.plan()
    assert row(held.table, shard_id(0)).checkpoint != Checkpoint(numbers[-1])
    plug_in(held.table)
    held.keeper.work()
    assert row(held.table, shard_id(0)).checkpoint == Checkpoint(numbers[-1])
    held.end()
    assert row(held.table, shard_id(0)).lease_owner is None


@pytest.mark.parametrize("fails", [True, False])
def test_a_shard_that_is_past_retention_unread(fails: bool) -> None:
    """The fleet would count a data gap and delete the lease; a query has an option for it."""
    held = held_query(failOnDataLoss=str(fails))
    put(held, 5)
    held.drain()
    held.end()
    put(held, 5, first=5)
    children = held.query.stream.inner.split(shard_id(0))
    held.query.clock.sleep(timedelta(hours=30))
    wanted = put(held, 5, first=10)
    held.query.stream.inner.trim(held.query.clock.now() - timedelta(hours=24))
    held.query.clock.sleep(5 * SECOND)
    held.start()
    if fails:
        with pytest.raises(DataGap, match=f"shard {shard_id(0)} is gone.*failOnDataLoss"):
            held.drain()
        assert row(held.table, shard_id(0)).checkpoint.is_sequence_number
    else:
        assert sorted(r.sequence_number for r in held.drain(idle=10)) == sorted(wanted)
        assert held.table.get(shard_id(0)) is None
        assert {row(held.table, child).lease_owner for child in children} == {WORKER}


def test_query_reports_as_a_worker_of_a_kcl_3_fleet_until_it_ends() -> None:
    """The fleet's leader gives leases only to workers that report."""
    held = held_query(2)
    put_row(held.table, Lease("shardId-000000000000", TRIM_HORIZON))

    def java_reports() -> None:
        held.table.put_row(encode_report(WorkerReport("java-1", held.query.clock.now(), ReportPlace.LEASE_TABLE)))

    def reported() -> timedelta | None:
        report = decode_report(held.table.row(WORKER) or {}, ReportPlace.LEASE_TABLE)
        return None if report is None else held.query.clock.now() - report.reported_at

    held.batch()
    assert reported() is None, "there is no leader"
    ages = set[timedelta | None]()
    for second in range(120):
        if second % 30 == 0:
            java_reports()
        wait_a_second(held)
        if second > 10:
            ages.add(reported())
    assert None not in ages
    assert max(age for age in ages if age is not None) < timedelta(seconds=35), "KCL forgets after 60"
    held.end()
    assert reported() is None
