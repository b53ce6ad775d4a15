"""A producer's loop when threads meet at the worst moment, and on a machine that is out of threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from random import Random
from types import TracebackType
from typing import Any

import pytest
from sublet.decisions.putting.outbox import ProducerRules
from sublet.decisions.putting.producing import SettledRecords
from sublet.protocol.records import NewRecord, PutRefused
from sublet.protocol.stream_info import PutRecord
from sublet.putting.loop import ProducerPorts, PuttingLoop
from sublet.putting.placing_source import PlacingSource
from sublet.testing.memory import FakeClock, MemoryLog, MemoryRecordWriter, MemoryStream
from sublet.testing.turn_taking import TurnTaking

SECOND = timedelta(seconds=1)
THROTTLED = PutRefused("ProvisionedThroughputExceededException", "Rate exceeded", passes=True)


class LockWithPause:
    """A lock after whose next release other threads have their turn."""

    def __init__(self, real: AbstractContextManager[object], bench: Bench) -> None:
        self._real, self._bench = real, bench

    def __enter__(self) -> None:
        self._real.__enter__()

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self._real.__exit__(kind, fault, at)
        pause, self._bench.pause = self._bench.pause, timedelta(0)
        if pause:
            self._bench.tasks.sleep(pause)


class Bench:
    """A loop over a stream of one shard. `refuse`: what answers a call instead of the stream, if it returns
    something.
    """

    def __init__(self, **rules: Any) -> None:
        self.pause = timedelta(0)
        self.clock = FakeClock()
        self.tasks = TurnTaking(self.clock)
        lock, self._spawn = self.tasks.lock, self.tasks.spawn
        self.tasks.lock = lambda: LockWithPause(lock(), self)  # type: ignore[method-assign]
        self.tasks.spawn = self._spawned  # type: ignore[method-assign]
        self.spawns_left: int | None = None
        """How many more tasks the machine can start; None: any number."""
        self.stream = MemoryStream(1, clock=self.clock, name="orders")
        self._writer = MemoryRecordWriter(self.stream, self.clock)
        self.refuse: Callable[[Sequence[NewRecord]], list[PutRecord | PutRefused] | None] = lambda _: None
        source = PlacingSource(self.stream, self.clock, MemoryLog())
        self.log = MemoryLog()
        ports = ProducerPorts(self, source, self.clock, self.tasks, Random(0), self.log)
        self.settled: list[SettledRecords] = []
        self.loop = PuttingLoop(ProducerRules(**rules), ports, self.settled.extend)

    def _spawned(self, work: Callable[[], Any]) -> Any:
        if self.spawns_left is not None:
            if not self.spawns_left:
                raise RuntimeError("can't start new thread")
            self.spawns_left -= 1
        return self._spawn(work)

    def put(self, records: Sequence[NewRecord]) -> list[PutRecord | PutRefused]:
        self.tasks.sleep(timedelta(milliseconds=10))
        return self.refuse(records) or self._writer.put(records)

    def offer(self, data: bytes) -> None:
        assert self.loop.offer(data, "key", None, data) is None


def test_close_settles_a_record_that_is_given_up_meanwhile() -> None:
    """It gives the record up by itself, and the program closes it at that moment: nothing is buffered any more."""
    bench = Bench(patience=5 * SECOND)
    bench.refuse = lambda records: [THROTTLED] * len(records)
    bench.offer(b"x")
    bench.tasks.sleep(4.9 * SECOND)
    bench.pause = SECOND
    assert bench.loop.close().wait(60 * SECOND)
    assert [[record.ticket for record in some.user_records] for some in bench.settled] == [[b"x"]]


def test_failure_during_a_failure_call_is_reported_by_the_next_call() -> None:
    bench = Bench()
    bench.refuse = lambda records: [PutRefused("No", records[0].data.decode(), passes=False)]
    bench.offer(b"too old")
    bench.tasks.sleep(SECOND)
    bench.offer(b"too new")
    bench.pause = SECOND
    assert "too old" in str(bench.loop.failure())
    assert "too new" in str(bench.loop.failure())


def test_a_machine_out_of_threads_refuses_the_first_record_and_takes_the_next() -> None:
    bench = Bench()
    bench.spawns_left = 0
    with pytest.raises(RuntimeError, match="thread"):
        bench.offer(b"x")
    bench.spawns_left = None
    bench.offer(b"y")
    assert bench.loop.close().wait(60 * SECOND)
    assert [some.user_records[0].ticket for some in bench.settled] == [b"y"]
    assert bench.loop.buffered_bytes == 0


def test_a_machine_out_of_threads_makes_its_calls_in_the_loop_s_own() -> None:
    bench = Bench()
    bench.spawns_left = 1
    bench.offer(b"x")
    assert bench.loop.close().wait(60 * SECOND)
    assert isinstance(bench.settled[0].outcome, PutRecord)


def test_log_line_put_by_this_producer_does_not_block() -> None:
    bench = Bench()
    bench.refuse = lambda records: (
        [PutRefused("No", "not this one", passes=False)] if records[0].data == b"bad" else None
    )
    write = bench.log.error

    def ship(message: str, **fields: object) -> None:
        write(message, **fields)
        bench.offer(message.encode())

    bench.log.error = ship  # type: ignore[method-assign]
    bench.offer(b"bad")
    bench.tasks.sleep(5 * SECOND)
    assert bench.loop.close().wait(60 * SECOND)
    tickets = [record.ticket for some in bench.settled for record in some.user_records]
    assert tickets == [b"bad", b"producer gave up records"]
    assert bench.log.lines[0].fields == {"records": 1, "problem": "RecordRefused"}
