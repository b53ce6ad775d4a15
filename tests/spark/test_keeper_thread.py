"""The keeper on its thread, and each way in which the source's process ends: its leases are released at the last
commit."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from io import StringIO
from typing import NoReturn

import pytest
from sublet.errors import LeaseKeeperGone, LeaseTableUnavailable, StreamUnavailable
from sublet.metric_names import Metric
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.shard import Shard
from sublet.settings import Settings, StartPosition
from sublet.spark.keeper.keeper_thread import KeeperThread, keeper_metrics
from sublet.spark.read.connection import StreamAccess
from sublet.spark.read.pace import CallPace
from sublet.spark.source.stream_read import StreamReader
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import MemoryLeaseTable, MemoryStream

from tests.spark.held_query import WORKER, HeldQuery
from tests.spark.memory_query import RealClock, WatchedStream, only
from tests.spark.test_follow import shard_id

SHARD = shard_id(0)


def held_query(shards: int = 1) -> HeldQuery:
    clock = RealClock()
    stream = WatchedStream(MemoryStream(shards, clock=SystemClock(), name="orders"), clock)
    return HeldQuery(stream, clock, MemoryLeaseTable(), failoverTime="3s")


def row(held: HeldQuery) -> Lease:
    lease = held.table.get(SHARD)
    assert isinstance(lease, Lease)
    return lease


def soon(happens: Callable[[], bool], within: float = 60) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if happens():
            return True
        time.sleep(0.02)
    return False


class Ended:
    """How a thread's query ends. `code`: the process' exit code."""

    def __init__(self, held: HeldQuery) -> None:
        self.is_over = False
        self.code: int | None = None
        self.thread = KeeperThread(held.keeper, ThreadTasks(), lambda: self.is_over, self._exit)

    def _exit(self, code: int) -> None:
        self.code = code

    def stop(self) -> None:
        self.thread.stop()
        self.thread.stop()  # changes nothing

    def terminate(self) -> None:
        self.thread.terminate(15)
        assert soon(lambda: self.code == 128 + 15), "as SIGTERM ends a process, but later"

    def lose_the_jvm(self) -> None:
        self.is_over = True


@pytest.mark.parametrize("ending", [Ended.stop, Ended.terminate, Ended.lose_the_jvm])
def test_keeper_releases_every_lease_at_the_committed_position(ending: Callable[[Ended], None]) -> None:
    held = held_query()
    ends = Ended(held)
    held.query.keeper = ends.thread
    held.query.restart()
    number = held.query.stream.inner.put("k", b"x")
    assert held.query.plan()
    assert row(held).lease_owner == WORKER
    counter = row(held).lease_counter
    assert soon(lambda: row(held).lease_counter > counter), "it heartbeats"
    held.run()
    ending(ends)
    assert soon(lambda: row(held).lease_owner is None)
    assert row(held).checkpoint == Checkpoint(number)
    with pytest.raises(LeaseKeeperGone, match="start the query again"):
        held.query.plan()


def test_keeper_error_is_raised_in_the_calling_thread() -> None:
    held = held_query()
    thread = Ended(held).thread

    def unreachable() -> NoReturn:
        raise LeaseTableUnavailable("down")

    held.table.scan = unreachable  # type: ignore[method-assign]
    with pytest.raises(LeaseTableUnavailable, match="down"):
        thread.held(held.query.driver.initial_offset())
    thread.stop()


def test_failing_keeper_logs_it_and_gives_up_its_leases() -> None:
    held = held_query()
    ends = Ended(held)
    assert ends.thread.held(held.query.driver.initial_offset()).keys() == {SHARD}

    def broken() -> NoReturn:
        raise RuntimeError("a bug")

    held.table.scan = broken  # type: ignore[method-assign]
    assert soon(lambda: row(held).lease_owner is None)
    with pytest.raises(RuntimeError, match="a bug"):
        ends.thread.stop()
    assert held.query.memory_log.messages("error") == ["the keeper of the query's leases has failed"]


class Source:
    """The reader as Spark's runner has it, over memory."""

    def __init__(self, held: HeldQuery) -> None:
        self.held = held
        held.start()
        self.reader = StreamReader(
            held.query.options,
            connect_driver=lambda options: only(self._connect(options)),
            connect_leases=lambda _: None,
            connect_keeper=lambda _: KeeperThread(held.keeper, ThreadTasks(), lambda: False),
            connect_task=self._connect,
        )

    def _connect(self, _: object) -> StreamAccess:
        clock = self.held.query.clock
        return self.held.query.connection(CallPace.of_driver(clock, clock.sleep))

    def run_what_is_there(self) -> int:
        """Does what Spark's runner does: returns how many shards the batch reads; `stop()` in `finally`."""
        reader = self.reader
        try:
            reader.prepareForTriggerAvailableNow()
            start = reader.initialOffset()
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            return len(reader.partitions(start, end))
        finally:
            reader.stop()


def test_query_that_fails_in_preparation_releases_its_leases() -> None:
    held = held_query(2)
    held.query.stream.inner.put_all((str(n), b"%d" % n) for n in range(100))
    list_shards = held.query.stream.list_shards

    def denied(at: StartPosition | None = None) -> tuple[Shard, ...]:
        if any(lease.lease_owner for lease in held.table.scan().leases):
            raise StreamUnavailable("not authorized to perform: kinesis:ListShards")
        return list_shards(at)

    held.query.stream.list_shards = denied  # type: ignore[method-assign]
    with pytest.raises(StreamUnavailable, match="not authorized"):
        Source(held).run_what_is_there()
    leases = held.table.scan().leases
    assert len(leases) == 2
    assert [lease.lease_owner for lease in leases] == [None, None]
    held.query.stream.list_shards = list_shards  # type: ignore[method-assign]
    assert Source(held).run_what_is_there() == 2


def test_main_thread_can_be_ended_while_it_waits_for_the_keeper() -> None:
    """A signal handler runs between any two steps of the main thread; here another thread does it."""
    held = held_query()
    ends = Ended(held)
    began, scan = threading.Event(), held.table.scan

    def slow() -> LeaseScan:
        began.set()
        time.sleep(0.5)
        return scan()

    held.table.scan = slow  # type: ignore[method-assign]
    committed = held.query.driver.initial_offset()
    asking = ThreadTasks().spawn(lambda: ends.thread.held(committed))
    assert began.wait(60)
    ends.terminate()
    assert asking.result().keys() == {SHARD}
    assert row(held).lease_owner is None


def test_keeper_metrics_go_to_their_logger_and_never_to_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics, taken = keeper_metrics(Settings(application="audit", stream="orders")), StringIO()
    metrics.put(Metric.RECORDS, 5)
    metrics.flush()
    logger, handler = logging.getLogger("sublet.metrics"), logging.StreamHandler(taken)
    logger.addHandler(handler)
    try:
        metrics.put(Metric.RECORDS, 7)
        metrics.flush()
    finally:
        logger.removeHandler(handler)
    assert capsys.readouterr() == ("", "")
    assert json.loads(taken.getvalue())["records"] == [7.0]
