"""A pull consumer in memory, whose threads take turns on a clock that moves only when all of them wait."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any

from sublet import Consumer
from sublet.decisions.pull.pull_events import Event, EventKind
from sublet.ports import LeaseTable, PollRefusal, Ports, Stream
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import GetRecordsReply
from sublet.testing.memory import (
    FakeClock,
    MemoryControlStore,
    MemoryLeaseTable,
    MemoryLog,
    MemorySightingStore,
    MemoryStream,
    memory_ports,
)
from sublet.testing.turn_taking import TurnTaking

SECOND = timedelta(seconds=1)


class PulledWorld:
    """A stream, its leases, and any number of consumers of one application."""

    def __init__(self, *, shards: int = 1) -> None:
        self.clock = FakeClock()
        self.tasks = TurnTaking(self.clock)
        self.stream = MemoryStream(shards, clock=self.clock, name="events")
        self.table = MemoryLeaseTable()
        self.sightings = MemorySightingStore()
        self.control = MemoryControlStore()
        self.log = MemoryLog()
        self.events: list[Event] = []

    def ports(self, stream: Stream | None = None, table: LeaseTable | None = None) -> Ports:
        return memory_ports(
            stream or self.stream,
            table or self.table,
            sightings=self.sightings,
            clock=self.clock,
            tasks=self.tasks,
            chance=Random(0),
            log=self.log,
            control=self.control,
        )

    def consumer(self, ports: Ports | None = None, **settings: Any) -> Consumer:
        return Consumer("orders", "events", ports=ports or self.ports(), on_event=self.events.append, **settings)

    def watched_polls(self) -> list[tuple[datetime, str]]:
        """A list that grows with each poll of a shard: the time and the shard."""
        polls: list[tuple[datetime, str]] = []
        poll = self.stream.poll

        def watched(iterator: str, limit: int) -> GetRecordsReply | PollRefusal:
            polls.append((self.clock.steady(), iterator.partition(" ")[0]))
            return poll(iterator, limit)

        self.stream.poll = watched  # type: ignore[method-assign]
        return polls

    def put(self, data: Iterable[str], key: str | None = None) -> None:
        """Each with its own first letter as its key, unless one is given."""
        for one in data:
            self.stream.put(key or one[0], one.encode())

    def put_later(self, seconds: float, data: Iterable[str]) -> None:
        """After this long, in parallel to a thread that waits for it."""

        def put() -> None:
            self.sleep(seconds)
            self.put(data)

        self.tasks.spawn(put)

    def sleep(self, seconds: float) -> None:
        self.tasks.sleep(timedelta(seconds=seconds))

    def told(self, kind: EventKind) -> int:
        return sum(event.kind is kind for event in self.events)

    @property
    def checkpoints(self) -> dict[str, Checkpoint]:
        return {lease.shard_id: lease.checkpoint for lease in self.table.scan().leases}

    @property
    def owners(self) -> set[str | None]:
        return {lease.actual_owner for lease in self.table.scan().leases}
