"""`leases=hold` with several streams: the query is one worker for the leases of all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.errors import LeaseHeldElsewhere, OffsetMalformed, SettingsError
from sublet.protocol.checkpoint import AT_TIMESTAMP, Checkpoint
from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import checkpoint
from sublet.protocol.stream_key import own_id
from sublet.spark.options import Leases
from sublet.spark.plan.offsets import Offset
from sublet.spark.read.counting import BatchShare

from tests.spark.held_query import HOLD, WORKER
from tests.spark.memory_query import memory_query
from tests.spark.several_query import SeveralQuery

SECOND = timedelta(seconds=1)
DISCOVERY = timedelta(seconds=61)


def held(names: str = "ab", **given: str) -> SeveralQuery:
    return SeveralQuery(names, **{**HOLD, "stream": ",".join(names), **given})


def rows(query: SeveralQuery) -> dict[str, Lease]:
    return {lease.lease_key: lease for lease in query.table.scan().leases}


def finish(query: SeveralQuery) -> None:
    assert query.keeper is not None
    query.keeper.finish()


def test_rows_are_those_of_a_multi_stream_kcl_and_checkpointed_as_spark_commits() -> None:
    query = held()
    wanted = query.put("a", 10) + query.put("b", 10)
    query.clock.sleep(2 * SECOND)
    query.run_all(idle=3)
    assert query.read == sorted(wanted)
    leases = rows(query)
    assert leases.keys() == {f"{query.key(name)}:shardId-{n:012}" for name in "ab" for n in range(2)}
    assert {lease.lease_owner for lease in leases.values()} == {WORKER}
    last = {(row.stream, row.shard_id): row.sequence_number for row in query.all_rows}
    for key, lease in leases.items():
        assert lease.checkpoint.sequence_number == last[key.split(":")[1], own_id(key)]
        row = encode_row(lease)
        assert row["streamName"] == {"S": str(query.key(key.split(":")[1]))}
        assert row["shardId"] == {"S": own_id(key)}
    finish(query)
    assert {lease.lease_owner for lease in rows(query).values()} == {None}


def test_through_a_reshard_of_one_stream() -> None:
    query = held()
    wanted = query.put("a", 10) + query.put("b", 10)
    query.streams["a"].inner.split("shardId-000000000000")
    wanted += query.put("a", 10)
    query.clock.sleep(2 * SECOND)
    query.run_all(idle=8)
    assert query.read == sorted(wanted)
    ended = {own_id(key) for key, lease in rows(query).items() if lease.is_ended}
    assert ended <= {"shardId-000000000000"}
    assert f"{query.key('a')}:shardId-000000000003" in rows(query)


def test_records_checkpointed_by_another_worker_are_not_read_again() -> None:
    query = SeveralQuery("", **HOLD, stream="a,b*")
    stream = query.create("a", shards=1).inner
    query.put("a", 10)
    query.clock.sleep(2 * SECOND)
    assert len(query.run_all(idle=3)) == 10
    finish(query)
    theirs = stream.put_all((str(n), b"theirs-%d" % n) for n in range(10))
    stream.put_all((str(n), b"later-%d" % n) for n in range(4))
    [lease] = rows(query).values()
    query.table.put_row(encode_row(replace(lease, checkpoint=Checkpoint(theirs[-1], 0))))
    query.clock.sleep(2 * SECOND)
    query.restart()
    assert sorted(row.data for row in query.run_all(idle=3)[10:]) == [b"later-%d" % n for n in range(4)]


def test_a_logged_batch_waits_for_the_worker_that_holds_one_of_its_streams() -> None:
    query = held(patience="2s")
    query.put("a", 10)
    query.put("b", 10)
    query.clock.sleep(2 * SECOND)
    query.run_all(idle=3)
    query.put("a", 10)
    query.put("b", 10)
    query.clock.sleep(2 * SECOND)
    assert query.plan()
    finish(query)
    theirs = [lease for key, lease in rows(query).items() if ":b:" in key]
    for lease in theirs:
        query.table.put_row(encode_row(replace(lease, lease_owner="fleet", lease_counter=lease.lease_counter + 1)))

    sleep = query.clock.sleep

    def beat(pause: timedelta) -> None:
        sleep(pause)
        for lease in theirs:
            now = query.table.get(lease.lease_key)
            assert isinstance(now, Lease)
            query.table.put_row(encode_row(replace(now, lease_counter=now.lease_counter + 1)))

    query.clock.sleep = beat  # type: ignore[method-assign]
    query.restart()
    with pytest.raises(LeaseHeldElsewhere, match=r":b:.* by fleet"):
        query.run()
    for lease in theirs:  # they get past the batch, and leave
        now = query.table.get(lease.lease_key)
        assert isinstance(now, Lease)
        end = query.offset(len(query.log) - 1).shards[lease.lease_key].position
        query.table.apply(checkpoint(now, to=Checkpoint(end.sequence_number, 0)))  # type: ignore[union-attr]
    assert {row.stream for row in query.run()} == {"a"}


def test_logged_batch_of_an_unnamed_stream_is_refused_until_it_is_named() -> None:
    query = held()
    query.put("a", 10)
    query.put("b", 10)
    query.clock.sleep(2 * SECOND)
    assert query.plan()
    finish(query)
    query.restart(**HOLD, stream="a@LATEST")
    with pytest.raises(SettingsError, match="also b, until the batch is committed"):
        query.run()
    query.restart(**HOLD, stream="a,b")
    assert {row.stream for row in query.run()} == {"a", "b"}


def test_deleted_stream_is_released_and_a_new_matching_stream_is_taken() -> None:
    query = held("ab", stream="a,b,c*")
    wanted = query.put("a", 5) + query.put("b", 5)
    query.clock.sleep(2 * SECOND)
    query.run_all(idle=3)
    query.create("c")
    wanted += query.put("c", 5)
    query.delete("b")
    query.clock.sleep(DISCOVERY)
    assert query.keeper is not None
    query.run_all(idle=8)
    assert Counter(query.read) == Counter(wanted)
    owners = {key.split(":")[1]: lease.lease_owner for key, lease in rows(query).items()}
    assert owners == {"a": WORKER, "b": None, "c": WORKER}


def test_available_now_reads_the_streams_present_at_the_start_while_holding() -> None:
    query = held("ab", stream="*")
    wanted = query.put("a", 20) + query.put("b", 20)
    query.clock.sleep(2 * SECOND)
    query.driver.set_targets(query.offset(-1))
    query.create("c")
    query.put("c", 10)
    query.clock.sleep(DISCOVERY)
    query.run_all(BatchShare(records=10), idle=3)
    assert query.read == sorted(wanted)


@pytest.mark.parametrize("is_there", [False, True])
def test_each_stream_has_its_start_position(is_there: bool) -> None:
    """Also in rows of a KCL fleet, which do not say from when on to read."""
    query = held()
    for n in range(2 if is_there else 0):
        key = f"{query.key('b')}:shardId-{n:012}"
        query.table.put_row(encode_row(Lease(key, AT_TIMESTAMP)))
    wanted = query.put("a", 5)
    query.put("b", 5)
    query.clock.sleep(60 * SECOND)
    query.restart(**HOLD, stream=f"a,b@AT_TIMESTAMP:{query.clock.now().isoformat()}")
    wanted += query.put("b", 5)
    query.clock.sleep(2 * SECOND)
    query.run_all(idle=3)
    assert query.read == sorted(wanted)


def test_rows_of_one_stream_are_not_continued_by_several() -> None:
    one, query = memory_query(1), held()
    part = one.driver.latest_offset(one.offset(-1)).streams[None]
    end = Offset({None: replace(part, application="orders-audit")})
    with pytest.raises(OffsetMalformed, match="Several need another application"):
        query.driver.latest_offset(end)


def test_checkpoint_without_leases_is_refused_before_the_keeper_takes_any() -> None:
    query = SeveralQuery("ab", stream="a,b")
    query.put_into_each(5)
    query.run_all()
    query.restart(**HOLD, stream="a,b")
    with pytest.raises(OffsetMalformed, match="without leases, but the query runs with the leases of orders-audit"):
        query.plan()
    assert rows(query) == {}


def test_followed_from_each_stream_s_own_checkpoints() -> None:
    query = held()
    query.put("a", 10)
    query.clock.sleep(2 * SECOND)
    query.run_all(idle=3)
    finish(query)
    assert query.options.leases is Leases.HOLD
    wanted = query.put("a", 5) + query.put("b", 5)
    query.clock.sleep(2 * SECOND)
    scans, scan = [0], query.table.scan

    def counted() -> LeaseScan:
        scans[0] += 1
        return scan()

    query.table.scan = counted  # type: ignore[method-assign]
    query.restart(stream="a,b", application=HOLD["application"], leases="follow")
    query.log.clear()
    query.rows.clear()
    query.run_all()
    assert query.read == sorted(wanted)
    assert scans == [1], "one for both streams"
