"""One long-lived process, in real threads over memory: it survives what passes, and leaves every lease free."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import LeaseClaim, WorkerItem
from sublet.decisions.session.process_end import ProcessEndReason
from sublet.decisions.session.read_position import ReadPosition
from sublet.engine.manager.probing import BOUNDS
from sublet.engine.process_health import HungCall
from sublet.errors import LeaseTableUnavailable, ProcessSpent, StreamNotFound, WorkerIdInUse
from sublet.handler import Batch
from sublet.handlers.batch import HandlerFunctions
from sublet.metric_names import Metric
from sublet.ports import Applied, Refusal, Refused, ShardReader, Signal, Task
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_writes import LeaseWrite
from sublet.protocol.records import GetRecordsReply
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.reading.polling import PollingReader
from sublet.runtimes.process import ConsumerProcess
from sublet.settings import Mode, Settings, StartPosition
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import MemoryLeaseTable, MemoryLog, MemoryMetrics, MemoryStream, memory_ports

T = TypeVar("T")

PATIENCE = 30
"""Seconds that a test waits for what should take two or three."""

SETTINGS = Settings(
    application="orders",
    stream="events",
    worker_id="process-1",
    mode=Mode.CONTINUOUS,
    failover_time=timedelta(seconds=3),
    heartbeat_interval=timedelta(seconds=1),
)


@dataclass
class OddTable:
    """A lease table whose scans raise each of `problems` first."""

    problems: list[Exception]
    real: MemoryLeaseTable = field(default_factory=MemoryLeaseTable)

    def scan(self) -> LeaseScan:
        if self.problems:
            raise self.problems.pop(0)
        return self.real.scan()

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        return self.real.get(lease_key)

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        return self.real.apply(write)


@dataclass
class OddStream:
    """A stream whose polls raise each of `faults` first, but those of a tick, which asks for few records."""

    faults: list[Exception]
    real: MemoryStream

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        return self.real.list_shards(at)

    def describe(self) -> StreamDescription:
        return self.real.describe()

    def has_shard(self, shard_id: str) -> bool:
        return self.real.has_shard(shard_id)

    def service_time(self) -> datetime:
        return self.real.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        return self.real.open(shard_id, position)

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | Refusal:
        if self.faults and limit > BOUNDS.limit:
            raise self.faults.pop(0)
        return self.real.poll(iterator, limit)


class EndedMetrics(MemoryMetrics):
    """What was put after the last flush, in `left`."""

    left = 0

    def flush(self, *, is_last: bool = False) -> None:
        super().flush(is_last=is_last)
        self.left = len(self.measurements)


class Consumer:
    """A process under way on a stream with one record, and what its handler has seen."""

    def __init__(
        self,
        problems_of_scan: Sequence[Exception] = (),
        faults_of_poll: Sequence[Exception] = (),
        script: Callable[[], object] = lambda: None,
        settings: Settings = SETTINGS,
    ) -> None:
        self._script = script
        self.seen: list[bytes] = []
        self.log, self.handled = MemoryLog(), threading.Event()
        self.stream = MemoryStream(1, name="events")
        self.stream.put("key", b"record")
        self.table, tasks = OddTable(list(problems_of_scan)), ThreadTasks()
        self.stop = tasks.signal()
        self.metrics = EndedMetrics()
        ports = memory_ports(
            OddStream(list(faults_of_poll), self.stream), self.table, tasks=tasks, log=self.log, metrics=self.metrics
        )
        self.process = ConsumerProcess(ports, HandlerFunctions(self._handle), settings, self.stop)
        self._running = tasks.spawn(self.process.run)

    def _handle(self, batch: Batch) -> None:
        self.seen += [record.data for record in batch.records]
        self.handled.set()
        self._script()

    def result(self) -> None:
        """Wait for its end. Raises what it raised."""
        self._running.result()

    def lease(self) -> Lease:
        (lease,) = self.table.real.scan().leases
        return lease


@pytest.fixture
def consume() -> Iterator[Callable[..., Consumer]]:
    """Start one; whatever became of the test, it is told to stop."""
    started: list[Consumer] = []

    def start(**odd: Any) -> Consumer:
        started.append(Consumer(**odd))
        return started[-1]

    yield start
    for consumer in started:
        consumer.stop.set()


Consume = Callable[..., Consumer]


def test_process_checkpoints_and_releases_on_a_stop(consume: Consume) -> None:
    consumer = consume()
    assert consumer.handled.wait(PATIENCE)
    assert consumer.lease().lease_owner == "process-1"
    consumer.stop.set()
    consumer.result()
    assert consumer.lease().lease_owner is None
    assert consumer.lease().checkpoint.is_sequence_number


def test_process_that_ends_writes_its_last_metrics_once_all_are_put(consume: Consume) -> None:
    consumer = consume()
    assert consumer.handled.wait(PATIENCE)
    consumer.stop.set()
    consumer.result()
    assert consumer.metrics.last_flushes == 1
    assert consumer.metrics.left == len(consumer.metrics.measurements) > 0
    assert consumer.metrics.values(Metric.RECORDS) == [1]


def test_a_table_that_is_out_of_reach_for_a_while_costs_a_tick(consume: Consume) -> None:
    consumer = consume(problems_of_scan=[LeaseTableUnavailable("no reply")] * 2)
    assert consumer.handled.wait(PATIENCE)
    assert consumer.log.messages("warning") == [
        "could not check for leases to resume",
        "tick failed; will retry",
    ]


def test_a_fault_in_one_window_is_reported_and_the_next_tick_goes_on(consume: Consume) -> None:
    consumer = consume(faults_of_poll=[KeyError("an unplanned fault")])
    assert consumer.handled.wait(PATIENCE)
    assert consumer.seen == [b"record"]
    (failed,) = [line.fields for line in consumer.log.lines if line.message == "window failed"]
    assert failed["error"] == "KeyError"
    assert f"{__file__}:" in str(failed["frames"]).split(" > ")[-1]  # where it was raised: our own stream
    assert "an unplanned fault" in str(failed["traceback"])


def test_process_releases_its_lease_when_the_stream_is_deleted(consume: Consume) -> None:
    consumer = consume(settings=replace(SETTINGS, refusal_patience=timedelta(0)))
    assert consumer.handled.wait(PATIENCE)
    consumer.stream.delete()
    with pytest.raises(StreamNotFound):
        consumer.result()
    assert consumer.lease().lease_owner is None
    assert consumer.lease().checkpoint.is_sequence_number


def test_restarted_process_resumes_its_leases() -> None:
    stream = MemoryStream(1, name="events")
    stream.put("key", b"record")
    (shard,) = stream.list_shards()
    left = Lease(shard.shard_id, TRIM_HORIZON, 9, "process-1", holder="dead/window-1")
    tasks, handled = ThreadTasks(), threading.Event()
    log, stop = MemoryLog(), tasks.signal()
    ports = memory_ports(stream, MemoryLeaseTable([left]), tasks=tasks, log=log)
    running = tasks.spawn(ConsumerProcess(ports, HandlerFunctions(lambda _: handled.set()), SETTINGS, stop).run)
    assert handled.wait(PATIENCE)
    stop.set()
    running.result()
    assert "lease chosen" not in log.messages("info"), "no tick had to see it expire"


def test_a_second_process_under_the_same_worker_id_is_refused(consume: Consume) -> None:
    first = consume()
    assert first.handled.wait(PATIENCE)
    tasks = ThreadTasks()
    ports = memory_ports(first.stream, first.table, tasks=tasks)
    with pytest.raises(WorkerIdInUse, match="process-1"):
        ConsumerProcess(ports, HandlerFunctions(lambda _: None), SETTINGS, tasks.signal()).run()
    assert first.lease().lease_owner == "process-1"


def no_descriptor() -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def test_process_without_descriptors_releases_its_leases_and_raises(consume: Consume) -> None:
    consumer = consume(script=no_descriptor)
    with pytest.raises(ProcessSpent, match="has run out of file descriptors; every lease is released, start it again"):
        consumer.result()
    assert consumer.lease().lease_owner is None


def test_process_with_a_hung_handler_can_be_stopped(consume: Consume) -> None:
    goes_on = threading.Event()
    consumer = consume(script=goes_on.wait, settings=replace(SETTINGS, handler_timeout=timedelta(seconds=1)))
    assert consumer.handled.wait(PATIENCE)
    consumer.stop.set()
    consumer.result()
    assert consumer.process.has_hung_calls
    assert consumer.lease().lease_owner is None
    goes_on.set()


def test_process_ends_when_all_of_its_leases_hang(consume: Consume) -> None:
    """One shard, and two calls at once: it would never hang in all of its slots, and reads nothing."""
    goes_on = threading.Event()
    consumer = consume(
        script=goes_on.wait,
        settings=replace(SETTINGS, handler_timeout=timedelta(seconds=1), handler_concurrency=2),
    )
    with pytest.raises(ProcessSpent, match="for every lease that the process could work on"):
        consumer.result()
    report = consumer.process.report()
    assert (report.is_live, report.shards) == (False, 0)
    assert [(stall.shard_id, stall.call) for stall in report.stalls] == [(consumer.lease().shard_id, "handle")]
    assert consumer.lease().lease_owner is None
    goes_on.set()


@dataclass
class Hasty:
    """Threads. While `is_hasty`, a new one has done its work before the thread that started it runs again."""

    real: ThreadTasks = field(default_factory=ThreadTasks)
    is_hasty: bool = True

    def spawn(self, work: Callable[[], T]) -> Task[T]:
        task = self.real.spawn(work)
        if self.is_hasty:
            task.result()
        return task

    def lock(self) -> AbstractContextManager[object]:
        return self.real.lock()

    def slots(self, count: int) -> AbstractContextManager[object]:
        return self.real.slots(count)

    def signal(self) -> Signal:
        return self.real.signal()


def test_instantly_finished_window_does_not_leave_the_process_busy() -> None:
    """A process that seems to be at work would go on although each of its leases has a call that hangs."""
    tasks = Hasty()
    ports = memory_ports(MemoryStream(1, name="events"), tasks=tasks, log=MemoryLog())
    process = ConsumerProcess(ports, HandlerFunctions(lambda _: None), SETTINGS, tasks.signal())
    process.dispatch([WorkerItem("nothing", "process-1", (), 1)])
    tasks.is_hasty = False
    health = process._worker.health
    health.note_hung(HungCall("a", "a", "handle", ports.clock.steady()))
    process.dispatch([WorkerItem("hangs", "process-1", (LeaseClaim("a", None, 1, ClaimReason.FREE),), 1)])
    assert health.ends_now is ProcessEndReason.ALL_LEASES_HANG
