"""Ports that tell what is seen of AWS on the way: signs of life, throttling, and what cannot pass by itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sublet.decisions.announcing import Announcement
from sublet.decisions.consumer_definition import Options
from sublet.decisions.dispatching import Dispatched
from sublet.decisions.liveness import Sighting
from sublet.decisions.pull_events import Event, EventKind, Service, SignsOfLife
from sublet.decisions.read_position import ReadPosition
from sublet.decisions.unread_shards import Unread
from sublet.errors import (
    LeaseTableAccessDenied,
    LeaseTableNotFound,
    StreamAccessDenied,
    StreamNotFound,
    TransientError,
)
from sublet.ports import (
    Applied,
    Clock,
    LeaseTable,
    PollRefusal,
    Ports,
    Refused,
    Remembered,
    ShardReader,
    SightingStore,
    Stream,
    Tasks,
)
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_writes import LeaseWrite
from sublet.protocol.records import Page
from sublet.protocol.shard import Shard
from sublet.protocol.stream_identity import StreamIdentity
from sublet.settings import StartPosition

FINAL = (LeaseTableNotFound, LeaseTableAccessDenied, StreamNotFound, StreamAccessDenied)
"""Consumer deleted, stream deleted, access denied: a lease's session would give up, and the next tick begin it again."""


class Signs:
    """What has been seen of AWS. Safe for threads."""

    def __init__(
        self, clock: Clock, tasks: Tasks, tell: Callable[[Event], None], fail: Callable[[BaseException], None]
    ) -> None:
        self.tell = tell
        self._clock = clock
        self._fail = fail
        self._lock = tasks.lock()
        self._signs = SignsOfLife(clock.steady())

    @contextmanager
    def asked(self, service: Service, *, may_be_denied: bool = False) -> Iterator[None]:
        """Around a question to AWS."""
        try:
            yield
        except TransientError as problem:
            self._become(lambda signs, _: signs.failed(service), str(problem))
            raise
        except FINAL as fault:
            if not (may_be_denied and isinstance(fault, StreamAccessDenied)):
                self._fail(fault)
            raise
        self._become(lambda signs, now: signs.answered(service, now))

    def look(self, idle_heartbeat: timedelta) -> None:
        """Tell a heartbeat that is missed."""
        self._become(lambda signs, now: signs.look(now, idle_heartbeat))

    def _become(
        self,
        change: Callable[[SignsOfLife, datetime], tuple[SignsOfLife, EventKind | None]],
        detail: str = "",
    ) -> None:
        with self._lock:
            self._signs, kind = change(self._signs, self._clock.steady())
        if kind is not None:
            self.tell(Event(kind, detail=detail))


def watched(ports: Ports, signs: Signs, on_definition: Callable[[Options | None], None]) -> Ports:
    """The same world, seen through. `on_definition` is told at each look at the sightings."""
    return replace(
        ports,
        table=WatchedTable(ports.table, signs),
        stream=WatchedStream(ports.stream, signs),
        sightings=WatchedSightings(ports.sightings, signs, on_definition),
    )


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """The LeaseTable port."""

    table: LeaseTable
    signs: Signs

    def scan(self) -> LeaseScan:
        with self.signs.asked(Service.DYNAMODB):
            return self.table.scan()

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        with self.signs.asked(Service.DYNAMODB):
            return self.table.get(lease_key)

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        with self.signs.asked(Service.DYNAMODB):
            return self.table.apply(write)


@dataclass(frozen=True, slots=True)
class WatchedStream:
    """The Stream port."""

    stream: Stream
    signs: Signs

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        with self.signs.asked(Service.KINESIS):
            return self.stream.list_shards(at)

    def identity(self) -> StreamIdentity:
        with self.signs.asked(Service.KINESIS, may_be_denied=True):
            return self.stream.identity()

    def has_shard(self, shard_id: str) -> bool:
        with self.signs.asked(Service.KINESIS):
            return self.stream.has_shard(shard_id)

    def service_time(self) -> datetime:
        with self.signs.asked(Service.KINESIS):
            return self.stream.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return WatchedReader(self.stream.reader(shard_id, position), shard_id, self.signs)


@dataclass(frozen=True, slots=True)
class WatchedReader:
    """The ShardReader port."""

    reader: ShardReader
    shard_id: str
    signs: Signs

    def open(self) -> None:
        with self.signs.asked(Service.KINESIS):
            self.reader.open()

    def read(self, limit: int) -> Page | PollRefusal:
        with self.signs.asked(Service.KINESIS):
            reply = self.reader.read(limit)
        if reply is PollRefusal.THROTTLED:
            self.signs.tell(Event(EventKind.THROTTLED, self.shard_id))
        return reply


@dataclass(frozen=True, slots=True)
class WatchedSightings:
    """The SightingStore port."""

    store: SightingStore
    signs: Signs
    on_definition: Callable[[Options | None], None]

    def load(self) -> Remembered:
        with self.signs.asked(Service.DYNAMODB):
            remembered = self.store.load()
        self.on_definition(remembered.definition)
        return remembered

    def save(self, sightings: Mapping[str, Sighting]) -> None:
        self.store.save(sightings)

    def adopt(self, stream: StreamIdentity, instead_of: StreamIdentity | None) -> bool:
        return self.store.adopt(stream, instead_of)

    def define(self, definition: Options, instead_of: Options | None) -> bool:
        return self.store.define(definition, instead_of)

    def keep_dispatched(self, dispatched: Mapping[str, Dispatched], seen_round: int) -> bool:
        return self.store.keep_dispatched(dispatched, seen_round)

    def keep_unread(self, unread: Mapping[str, Unread]) -> None:
        self.store.keep_unread(unread)

    def announce(self, worker_id: str, said: Announcement, lapsed: Collection[str] = ()) -> None:
        self.store.announce(worker_id, said, lapsed)

    def begin_prompted(self, token: str, now: datetime) -> bool:
        return self.store.begin_prompted(token, now)

    def end_prompted(self, token: str) -> bool:
        return self.store.end_prompted(token)
