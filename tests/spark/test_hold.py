"""`leases=hold`: a query shares an application's leases with a fleet, and none is missed or repeated at a hand-over."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from sublet.aws.clock import SystemClock
from sublet.memory import MemoryLeaseTable, MemoryStream
from sublet.protocol.aggregation import aggregate
from sublet.protocol.lease import Lease

from tests.spark.held_query import WORKER, HeldQuery
from tests.spark.memory_query import RealClock, SleepingClock, WatchedStream
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


def test_from_the_fleet_and_back_through_a_reshard_and_in_mid_aggregate() -> None:
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
