"""Taking over from a fleet: a query that follows an application starts exactly at its leases' checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sublet.errors import DataGap, MalformedCheckpoint
from sublet.handler import Batch
from sublet.handlers.batch import HandlerFunctions
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease
from sublet.runtimes.process import ConsumerProcess
from sublet.settings import Settings
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import MemoryLeaseTable, MemoryStream, memory_ports

from tests.spark.memory_query import MemoryQuery, RealClock, WatchedStream, memory_query, options

SECOND = timedelta(seconds=1)
FOLLOW = {"application": "orders-audit", "leases": "follow"}


def shard_id(number: int) -> str:
    return f"shardId-{number:012}"


def follow(query: MemoryQuery, *leases: Lease) -> MemoryQuery:
    query.leases = MemoryLeaseTable(leases)
    query.restart()
    return query


def consume(
    stream: MemoryStream, table: MemoryLeaseTable, handle: Callable[[Batch], None], done: Callable[[], bool]
) -> None:
    """The library's own process on the same leases, until `done`; then it checkpoints, releases and ends."""
    tasks = ThreadTasks()
    stop = tasks.signal()
    settings = Settings(application="orders-audit", stream="orders", worker_id="fleet", handler_attempts=1)
    process = ConsumerProcess(memory_ports(stream, table, tasks=tasks), HandlerFunctions(handle), settings, stop)
    running = tasks.spawn(process.run)
    for _ in range(400):
        if done():
            break
        stop.wait(timedelta(milliseconds=50))
    stop.set()
    running.result()
    assert done(), "the fleet did not get there in 20 s"


def test_query_follows_a_fleet_through_a_reshard_and_within_an_aggregate() -> None:
    """The fleet ends a parent and stops in the middle of a child's aggregate. None missing, none twice."""
    inner, table = MemoryStream(1, clock=SystemClock(), name="orders"), MemoryLeaseTable()
    produced = [b"%d" % n for n in range(100)]
    for data in produced[:20]:
        inner.put(data.decode(), data)
    low, high = inner.split(shard_id(0))
    inner.put("k", aggregate([("k", "0", data) for data in produced[20:40]]), explicit_hash_key=0)
    for data in produced[40:60]:
        inner.put("k", data, explicit_hash_key=2**127 + 1)
    seen: list[bytes] = []
    failed: set[str] = set()

    def handle(batch: Batch) -> None:
        """Of `low` only the first 13 of the aggregate's 20, checkpointed manually; then it fails."""
        if batch.shard_id != low:
            seen.extend(record.data for record in batch.records)
        elif not failed:
            failed.add(low)
            seen.extend(record.data for record in batch.records[:13])
            batch.checkpoint(batch.records[12])
            raise ValueError("the fleet's last breath")
        else:
            raise ValueError("and nothing after it")

    consume(inner, table, handle, lambda: len(seen) == 20 + 13 + 20)
    row = table.get(low)
    assert isinstance(row, Lease)
    assert row.checkpoint.sub_sequence_number == 12
    assert table.get(shard_id(0)) is None or table.get(shard_id(0)).is_ended  # type: ignore[union-attr]

    before = table.scan()
    for data in produced[60:80]:
        inner.put(data.decode(), data)
    inner.merge(low, high)
    for data in produced[80:]:
        inner.put(data.decode(), data)
    query = MemoryQuery(WatchedStream(inner, SystemClock()), RealClock(), options(**FOLLOW))
    query.leases = table
    query.restart()
    rows = [row.data for row in query.run_all()]
    assert sorted(seen + rows, key=int) == produced
    assert table.scan() == before, "a follower writes nothing"


def test_query_follows_every_kind_of_checkpoint() -> None:
    query = memory_query(5, **FOLLOW)
    stream, clock = query.stream.inner, query.clock
    keys = [shard.hash_key_range.starting for shard in stream.list_shards()]
    first = [stream.put("k", b"%d-old" % n, key) for n, key in enumerate(keys)]
    clock.sleep(60 * SECOND)
    moment = clock.now()
    for n, key in enumerate(keys):
        stream.put("k", b"%d-new" % n, key)
    clock.sleep(60 * SECOND)
    follow(
        query,
        Lease(shard_id(0), Checkpoint(first[0])),
        Lease(shard_id(1), TRIM_HORIZON),
        Lease(shard_id(2), AT_TIMESTAMP, start_at=moment),
        Lease(shard_id(3), LATEST),
        Lease(shard_id(4), LATEST, start_at=moment),
    )
    assert sorted(row.data for row in query.run_all()) == [b"0-new", b"1-new", b"1-old", b"2-new", b"4-new"]
    stream.put("k", b"3-later", keys[3])
    clock.sleep(5 * SECOND)
    assert query.run_all()[-1].data == b"3-later"


def test_children_wait_also_those_with_leases_and_ended_shards_stay_ended() -> None:
    query = memory_query(2, **FOLLOW)
    stream = query.stream.inner
    for _ in range(3):
        stream.put("k", b"ended", explicit_hash_key=0)
    children = stream.split(shard_id(0))
    unread = [stream.put("k", b"parent", explicit_hash_key=2**128 - 1) for _ in range(3)]
    stream.merge(children[1], shard_id(1))
    stream.put("k", b"child", explicit_hash_key=2**128 - 1)
    query.clock.sleep(5 * SECOND)
    follow(
        query,
        Lease(shard_id(0), SHARD_END, child_shard_ids=frozenset(children)),
        Lease(children[0], TRIM_HORIZON, parent_shard_ids=frozenset({shard_id(0)})),
        Lease(children[1], TRIM_HORIZON, parent_shard_ids=frozenset({shard_id(0)})),
        Lease(shard_id(1), Checkpoint(unread[0])),
    )
    assert [row.data for row in query.run_all()] == [b"parent", b"parent", b"child"]
    assert len([rows for rows in query.rows if rows]) == 2


def test_batch_0_planned_again_begins_where_it_did_though_the_table_has_moved_on() -> None:
    query = memory_query(1, **FOLLOW)
    numbers = query.stream.inner.put_all([("k", b"%d" % n) for n in range(10)])
    follow(query, Lease(shard_id(0), Checkpoint(numbers[3])))
    query.plan()
    query.clock.sleep(5 * SECOND)
    query.leases = MemoryLeaseTable([Lease(shard_id(0), Checkpoint(numbers[8]))])
    query.restart()
    query.run(0)
    assert [row.data for row in query.run_all()] == [b"4", b"5", b"6", b"7", b"8", b"9"]


def test_an_application_without_leases_begins_at_the_start_position() -> None:
    query = follow(memory_query(2, **FOLLOW))
    query.stream.inner.put_all([(str(n), b"%d" % n) for n in range(10)])
    assert len(query.run_all()) == 10


def test_a_malformed_row_is_refused_by_name() -> None:
    query = follow(memory_query(1, **FOLLOW))
    assert query.leases is not None
    query.leases.put_row({"leaseKey": {"S": shard_id(0)}, "checkpoint": {"S": "nonsense"}})
    with pytest.raises(MalformedCheckpoint, match=shard_id(0)):
        query.plan()


@pytest.mark.parametrize("caught_up", [True, False])
def test_a_checkpoint_past_retention_is_a_loss_unless_the_shard_was_caught_up(caught_up: bool) -> None:
    query = memory_query(1, **FOLLOW)
    number = query.stream.inner.put("k", b"old")
    query.clock.sleep(timedelta(hours=30))
    query.stream.inner.trim(query.clock.now() - timedelta(hours=24))
    query.stream.inner.put("k", b"new")
    at = query.clock.now() - timedelta(hours=1) if caught_up else datetime(2026, 1, 31, 8, tzinfo=UTC)
    follow(query, Lease(shard_id(0), Checkpoint(number), caught_up_at=at))
    query.clock.sleep(5 * SECOND)
    query.plan()
    if caught_up:
        assert [row.data for row in query.run()] == [b"new"]
    else:
        with pytest.raises(DataGap):
            query.run()


def test_a_leased_shard_that_is_gone_is_reported_even_if_data_loss_is_accepted() -> None:
    query = memory_query(1, **FOLLOW)
    number = query.stream.inner.put("k", b"read")
    query.stream.inner.put("k", b"unread")
    query.stream.inner.split(shard_id(0))
    query.clock.sleep(timedelta(hours=30))
    query.stream.inner.trim(query.clock.now() - timedelta(hours=24))
    follow(query, Lease(shard_id(0), Checkpoint(number)))
    query.driver.set_targets()
    with pytest.raises(DataGap, match="is gone"):
        query.run_all()


def test_children_that_have_no_leases_yet_begin_after_their_parents_end() -> None:
    """The worker that ended the parent was killed before it created them."""
    query = memory_query(1, **FOLLOW)
    query.stream.inner.put("k", b"handled")
    query.stream.inner.split(shard_id(0))
    query.stream.inner.put("k", b"new")
    query.clock.sleep(5 * SECOND)
    follow(query, Lease(shard_id(0), SHARD_END))
    assert [row.data for row in query.run_all()] == [b"new"]
