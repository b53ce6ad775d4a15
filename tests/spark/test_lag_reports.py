"""What a query that holds leases says of its shards in the rows, with the writes that it makes anyway."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.status.fleet_status import fleet_status
from sublet.decisions.status.status_rules import Status
from sublet.ports import Applied, Refused
from sublet.protocol.checkpoint import AT_TIMESTAMP, TRIM_HORIZON, Checkpoint
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.lease_attributes import ROW_BYTES_MAX, bytes_of
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.spark.keeper.lease_lag import LeaseLag
from sublet.spark.plan.lag import LagThen, ShardLook, lag_then
from sublet.spark.plan.offsets import Ended, ReadTo, ShardOffset, Unread
from sublet.spark.plan.planning import ShardPeek
from sublet.spark.read.counting import NO_LIMIT, BatchShare
from sublet.testing.memory import FakeClock, MemoryLeaseTable, MemoryStream

from tests.spark.held_query import HeldQuery
from tests.spark.memory_query import SleepingClock, WatchedStream
from tests.spark.test_follow import shard_id

ONE = BatchShare(records=1)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def held_query() -> HeldQuery:
    clock = SleepingClock()
    stream = WatchedStream(MemoryStream(1, clock=clock, name="orders"), clock)
    return HeldQuery(stream, clock, MemoryLeaseTable())


def put(held: HeldQuery, *data: bytes) -> None:
    for each in data:
        held.query.stream.inner.put(each.decode(), each, explicit_hash_key=0)


def lease(held: HeldQuery) -> Lease:
    row = held.table.get(shard_id(0))
    assert isinstance(row, Lease)
    assert bytes_of(encode_row(row)) <= ROW_BYTES_MAX
    return row


def report(held: HeldQuery) -> LagReport:
    said = lease(held).lag_report
    assert said is not None
    return said


def time_passes(held: HeldQuery, seconds: int, *, plans: bool = False, limit: BatchShare = NO_LIMIT) -> None:
    for _ in range(seconds):
        held.query.clock.sleep(SECOND)
        held.keeper.work()
        if plans and held.query.plan(limit):
            held.run()


def test_a_query_at_the_tip_says_that_nothing_waits_and_when_its_last_record_arrived() -> None:
    held = held_query()
    put(held, b"a")
    arrived_at = held.query.clock.now()
    time_passes(held, 20, plans=True)
    said = report(held)
    assert said.lag == timedelta(0)
    assert said.arrived_at is not None
    assert abs(said.arrived_at - arrived_at) <= SECOND
    assert held.query.clock.now() - said.at <= held.query.options.keeper_settings.heartbeat_interval + 2 * SECOND


def test_during_a_long_batch_the_lag_is_the_age_of_its_first_record() -> None:
    held = held_query()
    put(held, b"a")
    time_passes(held, 5, plans=True)
    before = lease(held).checkpoint
    waits_since = held.query.clock.now()
    put(held, b"b")
    held.query.clock.sleep(2 * SECOND)
    assert held.query.plan()
    time_passes(held, 60)
    said = report(held)
    assert lease(held).checkpoint == before
    assert said.waits_since is not None
    assert abs(said.waits_since - waits_since) <= 3 * SECOND
    held.run()
    time_passes(held, 10, plans=True)
    assert report(held).lag == timedelta(0)


def test_query_with_a_limit_reports_lag_and_rates() -> None:
    held = held_query()
    put(held, *[b"x" * 1000] * 200)
    time_passes(held, 60, plans=True, limit=ONE)
    said = report(held)
    assert said.lag is not None
    assert said.lag >= 30 * SECOND
    assert said.records_per_second == pytest.approx(1, abs=0.3)
    assert said.bytes_per_second == pytest.approx(1000, abs=300)


def test_query_without_a_limit_reports_no_rates() -> None:
    held = held_query()
    for _ in range(60):
        put(held, b"a")
        time_passes(held, 1, plans=True)
    said = report(held)
    assert (said.records_per_second, said.bytes_per_second) == (None, None)


def test_query_reports_make_a_lagging_shard_behind() -> None:
    """Behind by more and more, with a limit that is too low."""
    held = held_query()
    for _ in range(12 * 60):
        put(held, b"x", b"x")
        time_passes(held, 1, plans=True, limit=ONE)
    row, now = lease(held), held.query.clock.now()
    (shard,) = fleet_status(LeaseScan((row,)), now, held.query.options.keeper_settings).shards
    assert shard.status is Status.BEHIND
    assert shard.trend == pytest.approx(0.5, abs=0.1)
    assert shard.records_per_second == pytest.approx(1, abs=0.3)


def test_lag_reports_make_no_write_of_their_own() -> None:
    """A checkpoint for each batch, and heartbeats between them."""
    held = held_query()
    kinds: Counter[WriteKind] = Counter()
    real = held.table.apply

    def counted(write: LeaseWrite) -> Applied | Refused:
        kinds[write.kind] += 1
        return real(write)

    held.table.apply = counted  # type: ignore[method-assign]
    put(held, b"a")
    time_passes(held, 60, plans=True)
    interval = held.query.options.keeper_settings.heartbeat_interval
    assert kinds[WriteKind.CHECKPOINT] == 1
    assert 0 < kinds[WriteKind.HEARTBEAT] <= MINUTE / interval
    assert set(kinds) <= {WriteKind.CREATE, WriteKind.ACQUIRE, WriteKind.CHECKPOINT, WriteKind.HEARTBEAT}


NOW = FakeClock().now()
AT = ReadTo("50", NOW - MINUTE)
TO = ReadTo("60", NOW - 20 * SECOND)


def look(begin: ShardOffset, found: ShardPeek) -> ShardLook:
    return ShardLook(NOW - 10 * SECOND, begin, found)


@pytest.mark.parametrize(
    ("checkpoint", "made", "expected"),
    [
        ("50", look(ShardOffset(AT), ShardPeek(TO)), LagThen(NOW, MINUTE, AT.arrived)),
        (
            "50",
            look(ShardOffset(AT, caught_up_at=NOW - 30 * SECOND), ShardPeek(TO)),
            LagThen(NOW, 30 * SECOND, AT.arrived),
        ),
        (
            "50",
            look(ShardOffset(AT, quiet_until=NOW - 40 * SECOND), ShardPeek(TO)),
            LagThen(NOW, 40 * SECOND, AT.arrived),
        ),
        ("50", look(ShardOffset(AT), ShardPeek(Ended())), LagThen(NOW, MINUTE, AT.arrived)),
        (
            "50",
            look(ShardOffset(AT), ShardPeek(None, caught_up=True)),
            LagThen(NOW - 10 * SECOND, 0 * SECOND, AT.arrived),
        ),
        ("50", look(ShardOffset(AT), ShardPeek(None, lag=MINUTE)), LagThen(NOW - 10 * SECOND, None, AT.arrived)),
        ("50", look(ShardOffset(ReadTo("50")), ShardPeek(TO)), LagThen(NOW, 20 * SECOND, None)),
        ("60", look(ShardOffset(AT), ShardPeek(TO, lag=MINUTE)), LagThen(NOW, 70 * SECOND, TO.arrived)),
        ("60", look(ShardOffset(AT), ShardPeek(TO, lag=SECOND)), LagThen(NOW - 11 * SECOND, 0 * SECOND, TO.arrived)),
        (
            "60",
            look(ShardOffset(AT), ShardPeek(TO, caught_up=True)),
            LagThen(NOW - 10 * SECOND, 0 * SECOND, TO.arrived),
        ),
        ("TRIM_HORIZON", look(ShardOffset(Unread()), ShardPeek(TO)), LagThen(NOW, 20 * SECOND, None)),
        ("TRIM_HORIZON", look(ShardOffset(Unread()), ShardPeek(Ended())), LagThen(NOW, None, None)),
        ("TRIM_HORIZON", look(ShardOffset(AT), ShardPeek(TO)), None),
        ("55", look(ShardOffset(AT), ShardPeek(TO)), None),
    ],
)
def test_the_lag_by_one_look(checkpoint: str, made: ShardLook, expected: LagThen | None) -> None:
    assert lag_then(Checkpoint(checkpoint), made, NOW) == expected


def test_batch_rate_counts_once_and_only_after_the_commit() -> None:
    clock = FakeClock()
    lag = LeaseLag(Lease("s", TRIM_HORIZON), clock)
    first = ShardLook(clock.now(), ShardOffset(Unread()), ShardPeek(AT, rows=60, bytes=6000))
    lag.has_looked(first)
    clock.advance(MINUTE)
    running = lag.report(TRIM_HORIZON)
    assert running is not None
    assert running[0].records_per_second == 0
    clock.advance(MINUTE)
    for _ in range(2):
        committed = lag.report(Checkpoint("50"))
        lag.has_looked(replace_begin(first))
    assert committed is not None
    assert committed[0].records_per_second == 0.5  # half of one a second, and half of the minute before
    assert committed[0].bytes_per_second == 50


def replace_begin(made: ShardLook) -> ShardLook:
    return made._replace(begin=replace(made.begin, position=AT), found=ShardPeek(None, True, rows=0, bytes=0))


def test_a_position_that_was_moved_back_is_not_reported() -> None:
    lag = LeaseLag(Lease("s", Checkpoint("50")), FakeClock())
    assert lag.report(Checkpoint("50")) is None, "nothing has been planned yet"
    lag.has_looked(look(ShardOffset(AT), ShardPeek(TO)))
    assert lag.report(Checkpoint("60")) is not None
    assert lag.report(Checkpoint("50")) is None
    assert lag.report(AT_TIMESTAMP) is None
