"""A small world of several streams: one application over memory adapters, its streams coming and going, each call
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from sublet.decisions.session.read_position import ReadPosition
from sublet.decisions.streams.chosen_streams import FoundStreams, KnownStream
from sublet.engine.manager.tick import LeaseManager, TickReport
from sublet.engine.worker.worker import LeaseWorker
from sublet.errors import LeaseTableUnavailable
from sublet.ports import Applied, Ports, Pushes, Refusal, Refused, ShardReader, Stream
from sublet.protocol.lease import Lease
from sublet.protocol.lease_writes import LeaseWrite
from sublet.protocol.records import GetRecordsReply
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.reading.polling import PollingReader
from sublet.reading.several_streams import with_streams
from sublet.settings import Settings, StartPosition, StreamChoice
from sublet.testing.memory import (
    FakeClock,
    MemoryDispatcher,
    MemoryLeaseTable,
    MemoryLog,
    MemoryMetrics,
    MemorySightingStore,
    MemoryStream,
    MemoryStreams,
    memory_ports,
)
from sublet.testing.turn_taking import TurnTaking

from tests.doubles.engine_world import RememberingHandler

MINUTE = timedelta(minutes=1)


class CountedStream:
    """The Stream port over a MemoryStream. `fails`: raised by the next calls of that name."""

    def __init__(self, real: MemoryStream, clock: FakeClock, calls: list[tuple[datetime, str, str]]) -> None:
        self.real = real
        self.clock = clock
        self.calls = calls
        self.fails: dict[str, Exception] = {}
        self.listed_at: list[StartPosition | None] = []

    def _called(self, what: str) -> None:
        self.calls.append((self.clock.steady(), what, self.real.name))
        if what in self.fails:
            raise self.fails[what]

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        self.listed_at.append(at)
        self._called("list_shards")
        return self.real.list_shards(at)

    def describe(self) -> StreamDescription:
        self._called("describe")
        return self.real.describe()

    def has_shard(self, shard_id: str) -> bool:
        self._called("has_shard")
        return self.real.has_shard(shard_id)

    def service_time(self) -> datetime:
        self._called("service_time")
        return self.real.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        self._called("open")
        return self.real.open(shard_id, position)

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | Refusal:
        self._called("poll")
        return self.real.poll(iterator, limit)


class FindingStreams:
    """The Streams port. Counts `find` as the one call that it is over AWS, and describes no stream for it but one that
    fails to be found, as one of another account may.
    """

    def __init__(self, world: SeveralWorld, choice: StreamChoice) -> None:
        self._world = world
        self._choice = choice

    def find(self, known: Collection[StreamKey] = ()) -> FoundStreams:
        world = self._world
        world.calls.append((world.clock.steady(), "find", ""))
        if world.find_fails is not None:
            raise world.find_fails
        real: dict[str, Stream] = {
            name: each if "find" in each.fails else each.real for name, each in world.streams.items()
        }
        return MemoryStreams(self._choice, real, world.tags).find(known)

    def of(self, stream: StreamKey) -> Stream:
        return MemoryStreams(self._choice, self._world.streams).of(stream)

    def arn(self, stream: StreamKey) -> str:
        return MemoryStreams(self._choice, {}).arn(stream)


class TroubledTable:
    """The LeaseTable port over the world's table: writes take time, and some fail."""

    def __init__(self, world: SeveralWorld) -> None:
        self._world = world
        self.scan, self.get = world.table.scan, world.table.get

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        if self._world.write_takes:
            self._world.tasks.sleep(self._world.write_takes)
        stream = stream_key_of(write.lease_key)
        if stream is not None and stream.stream in self._world.refused:
            raise LeaseTableUnavailable("not now")
        return self._world.table.apply(write)


class SlowNotes:
    """The SightingStore port over the world's store: each note of a stream takes time."""

    def __init__(self, world: SeveralWorld) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.sightings, name)

    def keep_streams(self, streams: Mapping[StreamKey, KnownStream]) -> None:
        self._world.tasks.sleep(self._world.write_takes * len(streams))
        self._world.sightings.keep_streams(streams)


class SeveralWorld:
    """An application of several streams."""

    def __init__(self, streams: str, *names: str, **settings: Any) -> None:
        self.clock = FakeClock()
        self.tasks = TurnTaking(self.clock)
        self.calls: list[tuple[datetime, str, str]] = []
        """When, which call, of which stream."""
        self.tags: dict[str, dict[str, str]] = {}
        self.find_fails: Exception | None = None
        self.write_takes = timedelta(0)
        """How long a write of a lease, or of a note of a stream, takes."""
        self.refused: frozenset[str] = frozenset()
        """Streams by name: writes of their leases fail."""
        self.pushes: Pushes | None = None
        """Who pushes records to workers; None: they poll."""
        self.streams: dict[str, CountedStream] = {}
        for name in names:
            self.create(name)
        given = {"linger": timedelta(0), **settings}
        self.settings = Settings(application="audit", streams=StreamChoice.parse(streams), **given)
        self.table = MemoryLeaseTable(several=True)
        self.sightings = MemorySightingStore()
        self.log, self.metrics = MemoryLog(), MemoryMetrics()
        self.handler = RememberingHandler(self.clock)
        self.dispatcher = MemoryDispatcher()
        self._windows = 0

    def create(self, name: str, shards: int = 1) -> MemoryStream:
        real = MemoryStream(shards, clock=self.clock, name=name, advance=lambda: timedelta(days=1))
        self.streams[name] = CountedStream(real, self.clock, self.calls)
        return real

    def delete(self, name: str) -> None:
        self.streams.pop(name).real.delete()

    def key(self, name: str) -> StreamKey:
        return StreamKey.of(self.streams[name].real.describe().identity)

    def shard(self, name: str, index: int = 0) -> str:
        """A shard's name in the application."""
        return f"{self.key(name)}:shardId-{index:012}"

    def put(self, name: str, *data: str) -> None:
        for text in data:
            self.streams[name].real.put(text, text.encode())

    def ports(self, settings: Settings | None = None) -> Ports:
        choice = (settings or self.settings).streams
        assert choice is not None
        notes: Any = SlowNotes(self) if self.write_takes else self.sightings
        ports = memory_ports(
            table=TroubledTable(self),
            sightings=notes,
            clock=self.clock,
            tasks=self.tasks,
            chance=Random(0),
            metrics=self.metrics,
            log=self.log,
        )
        return replace(with_streams(ports, FindingStreams(self, choice)), pushes=self.pushes)

    def manager(self, streams: str | None = None, **changes: Any) -> LeaseManager:
        """One process's. `streams`: another choice than the world's."""
        given = changes if streams is None else {**changes, "streams": StreamChoice.parse(streams)}
        settings = replace(self.settings, **given)
        return LeaseManager(self.ports(settings), self.dispatcher, settings)

    def read(self, report: TickReport | None = None) -> None:
        """A window of each item that was dispatched."""
        for item in self.dispatcher.take() if report is None else report.dispatched:
            self._windows += 1
            worker = LeaseWorker(self.ports(), self.handler, self.settings)
            worker.run_window(item, f"window-{self._windows}", self.clock.steady() + MINUTE)

    def leases(self) -> dict[str, Lease]:
        return {lease.lease_key: lease for lease in self.table.scan().leases}

    def counted(self) -> Counter[str]:
        """Calls since the last time, by name."""
        counted = Counter(what for _, what, _ in self.calls)
        self.calls.clear()
        return counted
