"""A streaming query that holds leases, without Spark: a keeper in this process, and a checkpoint folder in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

from sublet.ports import Refusal
from sublet.protocol.records import GetRecordsReply
from sublet.spark.keeper.keeper import Keeper
from sublet.spark.plan.offsets import Offset, offset_to_json
from sublet.spark.read.counting import NO_LIMIT, BatchShare
from sublet.testing.memory import (
    MemoryControlStore,
    MemoryLeaseTable,
    MemoryMetrics,
    MemorySightingStore,
    memory_ports,
)

from tests.spark.memory_query import MemoryQuery, Row, Sleeper, WatchedStream, options, through_json

HOLD = {"application": "orders-audit", "leases": "hold", "failoverTime": "6s"}
WORKER = "orders-audit-spark"


class MemoryCommits:
    """The folder's content. `is_readable` False: it is on a file system that only Spark can read."""

    def __init__(self) -> None:
        self.ends: list[object] = []
        self.is_readable = True
        self.location = "/data/audit/checkpoint"

    def has(self, end: Offset) -> bool | None:
        return through_json(offset_to_json(end)) in self.ends if self.is_readable else None


class HeldQuery:
    """A query and its keepers, one after the other. `query.log` and `commits` outlive them, as Spark's checkpoint
    does."""

    def __init__(self, stream: WatchedStream, clock: Sleeper, table: MemoryLeaseTable, /, **given: str) -> None:
        self.table = table
        self.commits = MemoryCommits()
        self.sightings, self.metrics = MemorySightingStore(), MemoryMetrics()
        self.query = MemoryQuery(stream, clock, options(**{**HOLD, **given}))
        self.control = MemoryControlStore()
        self.runs = 0
        self.start()

    def start(self) -> None:
        """A new process of the source, with a keeper of its own."""
        self.runs += 1
        ports = memory_ports(
            self.query.stream,
            self.table,
            sightings=self.sightings,
            clock=self.query.clock,
            chance=Random(self.runs),
            metrics=self.metrics,
            log=self.query.memory_log,
            control=self.control,
        )
        self.keeper = Keeper(
            ports,
            self.commits,
            self.query.clock.sleep,
            self.query.options.keeper_settings,
            f"spark/{self.runs}",
            self.query.options.fail_on_data_loss,
        )
        self.query.keeper = self.keeper
        self.query.restart()

    def batch(self, limit: BatchShare = NO_LIMIT) -> list[Row] | None:
        """Plan one, run it, commit it; None if there was nothing to read."""
        return self.run() if self.query.plan(limit) else None

    def run(self) -> list[Row]:
        rows = self.query.run()
        self.commit()
        return rows

    def commit(self) -> None:
        """Spark writes it down without telling the source."""
        self.commits.ends.append(through_json(offset_to_json(self.query.offset(len(self.query.log) - 1))))

    def drain(self, idle: int = 3, limit: BatchShare = NO_LIMIT) -> list[Row]:
        """Batches, until this many plans in a row found nothing."""
        rows: list[Row] = []
        found_nothing = 0
        for _ in range(500):
            batch = self.batch(limit)
            found_nothing = 0 if batch else found_nothing + 1
            rows += batch or []
            if found_nothing == idle:
                return rows
            self.query.clock.sleep(timedelta(milliseconds=300))
            self.keeper.work()
        raise AssertionError("still reading after 500 batches")

    def at_the_next_look(self, act: Callable[[], None]) -> None:
        """The next look into a shard takes twelve seconds, and the keeper does what is due meanwhile."""
        stream, poll = self.query.stream, self.query.stream.poll

        def act_and_poll(iterator: str, limit: int) -> GetRecordsReply | Refusal:
            stream.poll = poll  # type: ignore[method-assign]
            act()
            for _ in range(12):
                self.query.clock.sleep(timedelta(seconds=1))
                self.keeper.work()
            return poll(iterator, limit)

        stream.poll = act_and_poll  # type: ignore[method-assign]

    def end(self) -> None:
        """The query is over, in whatever way; its keeper notices, and has all the time that it needs."""
        self.keeper.finish()
