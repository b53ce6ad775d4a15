"""Runs several processes of one application on one stream, in threads that take turns on a clock that moves only when
all of them wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

from sublet.decisions.manager.dispatching import DispatchedWorker
from sublet.decisions.manager.joins_and_drains import Announcement
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.manager.unread_shards import UnreadShard
from sublet.decisions.streams.chosen_streams import KnownStream
from sublet.errors import LeaseTableUnavailable
from sublet.handler import Batch
from sublet.handlers.batch import HandlerFunctions
from sublet.ports import Remembered, Signal, Task
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement
from sublet.protocol.stream_key import StreamKey
from sublet.runtimes.process import ConsumerProcess
from sublet.settings import Mode, Settings
from sublet.testing.memory import (
    FakeClock,
    MemoryLeaseTable,
    MemoryLog,
    MemoryMetrics,
    MemorySightingStore,
    MemoryStream,
    memory_ports,
)
from sublet.testing.turn_taking import TurnTaking

from tests.doubles.refusing_table import RefusingTable

HANDLES_FOR = timedelta(milliseconds=50)
"""The duration of a handler call."""


@dataclass
class Sightings:
    """The SightingStore port. `disturb` decides whether an announcement is stored."""

    real: MemorySightingStore = field(default_factory=MemorySightingStore)
    disturb: Callable[[], bool] = lambda: True
    loads: int = 0

    def load(self) -> Remembered:
        self.loads += 1
        return self.real.load()

    def save(self, sightings: Mapping[str, Sighting]) -> None:
        self.real.save(sightings)

    def adopt(self, stream: StreamIdentity, instead_of: StreamIdentity | None) -> bool:
        return self.real.adopt(stream, instead_of)

    def keep_dispatched(self, dispatched: Mapping[str, DispatchedWorker], seen_round: int) -> bool:
        return self.real.keep_dispatched(dispatched, seen_round)

    def keep_unread(self, unread: Mapping[str, UnreadShard]) -> None:
        self.real.keep_unread(unread)

    def begin_describing(self, now: datetime, seen: Remembered) -> bool:
        return self.real.begin_describing(now, seen)

    def keep_placement(self, placement: Placement, asked_at: datetime) -> None:
        self.real.keep_placement(placement, asked_at)

    def keep_streams(self, streams: Mapping[StreamKey, KnownStream]) -> None:
        self.real.keep_streams(streams)

    def forget_stream(self, stream: StreamKey) -> None:
        self.real.forget_stream(stream)

    def define(self, definition: Mapping[str, str], instead_of: Mapping[str, str] | None) -> bool:
        return self.real.define(definition, instead_of)

    def announce(self, worker_id: str, said: Announcement, lapsed: Collection[str] = ()) -> None:
        if self.disturb():
            self.real.announce(worker_id, said, lapsed)

    def begin_prompted(self, token: str, now: datetime) -> bool:
        return self.real.begin_prompted(token, now)

    def end_prompted(self, token: str) -> bool:
        return self.real.end_prompted(token)


@dataclass
class Running:
    """One process. `killed` works like SIGKILL: nothing that it still does is visible."""

    name: str
    table: RefusingTable
    stop: Signal
    leaving: Signal
    process: ConsumerProcess
    task: Task[None]
    killed: Signal

    def kill(self) -> None:
        self.table.refuses = True
        self.killed.set()
        self.stop.set()

    def leave(self) -> None:
        """SIGTERM, and wait for the end."""
        self.leaving.set()
        self.task.result()


class ProcessWorld:
    """`handled`: when each record was handled, by its data, in order."""

    def __init__(self, shards: int = 8, chance: Random | None = None, **settings: Any) -> None:
        self.clock = FakeClock()
        self.tasks = TurnTaking(self.clock, turns_max=2_000_000)
        self.chance = chance or Random(0)
        self.stream = MemoryStream(shards, clock=self.clock, name="events")
        self.table, self.sightings = MemoryLeaseTable(), Sightings()
        self.log, self.metrics = MemoryLog(), MemoryMetrics()
        self.settings: dict[str, Any] = {"application": "orders", "stream": "events"} | settings
        self.put: list[bytes] = []
        self.handled: dict[str, list[tuple[datetime, bytes]]] = {}
        """By shard."""
        self._started = 0
        self._over = self.tasks.signal()
        self._producer: Task[None] | None = None

    def start(self, **settings: Any) -> Running:
        self._started += 1
        name = f"process-{self._started}"
        table = RefusingTable(self.table, LeaseTableUnavailable("killed"))
        stop, leaving, killed = (self.tasks.signal() for _ in range(3))
        ports = memory_ports(
            self.stream,
            table,
            sightings=self.sightings,
            clock=self.clock,
            tasks=self.tasks,
            chance=Random(self._started),
            log=self.log,
            metrics=self.metrics,
        )
        given = {"mode": Mode.CONTINUOUS, "worker_id": name} | self.settings | settings

        def handle(batch: Batch) -> None:
            self.tasks.sleep(HANDLES_FOR)
            if not killed.is_set():
                seen = self.handled.setdefault(batch.shard_id, [])
                seen += [(self.clock.steady(), record.data) for record in batch.records]

        process = ConsumerProcess(ports, HandlerFunctions(handle), Settings(**given), stop, leaving)
        return Running(name, table, stop, leaving, process, self.tasks.spawn(process.run), killed)

    def produce(self, every: timedelta) -> None:
        """Records for all shards, until `finish`."""

        def work() -> None:
            while not self._over.wait(every):
                for shard in range(len(self.stream.logs)):
                    data = f"{shard}/{len(self.put)}".encode()
                    self.put.append(data)
                    self.stream.put(f"{shard}-{self.chance.getrandbits(32)}", data)

        self._producer = self.tasks.spawn(work)

    def stop_producing(self) -> None:
        self._over.set()
        if self._producer is not None:
            self._producer.result()

    def sleep(self, seconds: float) -> None:
        self.tasks.sleep(timedelta(seconds=seconds))

    def pause(self, shard_id: str) -> timedelta:
        """The longest time between two records of a shard."""
        moments = [at for at, _ in self.handled[shard_id]]
        return max((later - at for at, later in pairwise(moments)), default=timedelta(0))

    @property
    def pauses(self) -> list[float]:
        return [self.pause(shard_id).total_seconds() for shard_id in sorted(self.handled)]

    @property
    def missing(self) -> set[bytes]:
        return set(self.put) - {data for seen in self.handled.values() for _, data in seen}

    @property
    def repeated(self) -> int:
        times = Counter(data for seen in self.handled.values() for _, data in seen)
        return sum(number - 1 for number in times.values())

    @property
    def owners(self) -> Counter[str | None]:
        return Counter(lease.actual_owner for lease in self.table.scan().leases)
