"""Wraps a pulling program's ports: each reply shows in its `ServiceContact`, and each release is an event."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sublet.decisions.manager.dispatching import DispatchedWorker
from sublet.decisions.manager.joins_and_drains import Announcement
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.manager.unread_shards import UnreadShard
from sublet.decisions.pull.consumer_definition import Options
from sublet.decisions.pull.pull_events import AwsService, Event, EventKind
from sublet.decisions.session.push import PushEnd
from sublet.decisions.session.read_position import ReadPosition
from sublet.decisions.streams.chosen_streams import FoundStreams, KnownStream
from sublet.ports import (
    Applied,
    LeaseTable,
    PollRefusal,
    Ports,
    Pushed,
    Pushes,
    Refusal,
    Refused,
    Remembered,
    ShardReader,
    ShardSubscription,
    SightingStore,
    Stream,
    Streams,
    Unanswered,
)
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow, shard_id_of
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.protocol.records import Page
from sublet.protocol.shard import Shard
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement, StreamDescription
from sublet.protocol.stream_key import StreamKey
from sublet.pull.events import LeaseEvents
from sublet.pull.service_contact import READING, ServiceContact
from sublet.settings import StartPosition

RELEASES = (WriteKind.RELEASE, WriteKind.HAND_OVER)


def watched(
    ports: Ports, signs: ServiceContact, on_definition: Callable[[Options | None], None], lease_events: LeaseEvents
) -> Ports:
    """Wraps the ports so that each reply is watched. Each load of the sightings calls `on_definition`, and each release
    is passed to `lease_events`. No call has a span: it lasts until the program has acknowledged its records.
    """
    return replace(
        ports,
        table=WatchedTable(ports.table, signs, lease_events),
        stream=WatchedStream(ports.stream, signs),
        sightings=WatchedSightings(ports.sightings, signs, on_definition),
        streams=None if ports.streams is None else WatchedStreams(ports.streams, signs),
        pushes=None if ports.pushes is None else WatchedPushes(ports.pushes, signs),
        traces=None,
    )


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """The LeaseTable port."""

    table: LeaseTable
    signs: ServiceContact
    lease_events: LeaseEvents

    def scan(self) -> LeaseScan:
        with self.signs.asked(AwsService.DYNAMODB, "scan"):
            return self.table.scan()

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        with self.signs.asked(AwsService.DYNAMODB, "get"):
            return self.table.get(lease_key)

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        try:
            with self.signs.asked(AwsService.DYNAMODB, "apply"):
                result = self.table.apply(write)
        except Exception as problem:
            if write.kind in RELEASES:
                why = f"could not be released; others may acquire it after failover_time: {problem}"
                self.lease_events.end(shard_id_of(write.lease_key), EventKind.LEASE_LOST, why)
            raise
        if write.kind in RELEASES and _is_released(result):
            self.lease_events.end(shard_id_of(write.lease_key), EventKind.LEASE_RELEASED)
        return result


def _is_released(result: Applied | Refused) -> bool:
    """True if this write released the lease, or an earlier attempt whose reply was lost had."""
    if isinstance(result, Applied):
        return True
    return isinstance(result.row, Lease) and result.row.actual_owner is None


@dataclass(frozen=True, slots=True)
class WatchedStream:
    """The Stream port."""

    stream: Stream
    signs: ServiceContact

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        with self.signs.asked(AwsService.KINESIS, "list_shards"):
            return self.stream.list_shards(at)

    def describe(self) -> StreamDescription:
        with self.signs.asked(AwsService.KINESIS, "describe", may_be_refused=True):
            return self.stream.describe()

    def has_shard(self, shard_id: str) -> bool:
        with self.signs.asked(AwsService.KINESIS, "has_shard"):
            return self.stream.has_shard(shard_id)

    def service_time(self) -> datetime:
        with self.signs.asked(AwsService.KINESIS, "service_time"):
            return self.stream.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return WatchedReader(self.stream.reader(shard_id, position), shard_id, self.signs)


@dataclass(frozen=True, slots=True)
class WatchedStreams:
    """The Streams port."""

    streams: Streams
    signs: ServiceContact

    def find(self, known: Collection[StreamKey] = ()) -> FoundStreams:
        with self.signs.asked(AwsService.KINESIS, "find", may_be_refused=True):
            return self.streams.find(known)

    def of(self, stream: StreamKey) -> Stream:
        return WatchedStream(self.streams.of(stream), self.signs)

    def arn(self, stream: StreamKey) -> str:
        return self.streams.arn(stream)


@dataclass(frozen=True, slots=True)
class WatchedReader:
    """The ShardReader port."""

    reader: ShardReader
    shard_id: str
    signs: ServiceContact

    def open(self) -> None:
        with self.signs.asked(AwsService.KINESIS, READING) as question:
            self.reader.open()
            question.is_answered = None  # an open reader makes no call

    def read(self, limit: int) -> Page | Refusal:
        with self.signs.asked(AwsService.KINESIS, READING) as question:
            reply = self.reader.read(limit)
            question.is_answered = not isinstance(reply, Unanswered)
        if reply is PollRefusal.THROTTLED:
            self.signs.tell(Event(EventKind.THROTTLED, self.shard_id))
        return reply


@dataclass(frozen=True, slots=True)
class WatchedPushes:
    """The Pushes port."""

    pushes: Pushes
    signs: ServiceContact

    def subscribe(self, shard_id: str, position: ReadPosition) -> ShardSubscription | PushEnd | Unanswered:
        with self.signs.asked(AwsService.KINESIS, READING) as question:
            answer = self.pushes.subscribe(shard_id, position)
            question.is_answered = answer is not PushEnd.REFUSED and not isinstance(answer, Unanswered)
        return answer if isinstance(answer, PushEnd | Unanswered) else WatchedSubscription(answer, self.signs)


@dataclass(frozen=True, slots=True)
class WatchedSubscription:
    """The ShardSubscription port. Each event is a sign of life, also the empty ones that come every few seconds."""

    subscription: ShardSubscription
    signs: ServiceContact

    def wait(self, longest: timedelta) -> bool:
        return self.subscription.wait(longest)

    def next(self) -> Pushed | PushEnd | Unanswered:
        with self.signs.asked(AwsService.KINESIS, READING) as question:
            came = self.subscription.next()
            question.is_answered = True if isinstance(came, Pushed) else None
        return came

    @property
    def has_more(self) -> bool:
        return self.subscription.has_more

    def interrupt(self) -> None:
        self.subscription.interrupt()

    def close(self) -> None:
        self.subscription.close()


@dataclass(frozen=True, slots=True)
class WatchedSightings:
    """The SightingStore port."""

    store: SightingStore
    signs: ServiceContact
    on_definition: Callable[[Options | None], None]

    def load(self) -> Remembered:
        with self.signs.asked(AwsService.DYNAMODB, "load"):
            remembered = self.store.load()
        self.on_definition(remembered.definition)
        return remembered

    def save(self, sightings: Mapping[str, Sighting]) -> None:
        self.store.save(sightings)

    def adopt(self, stream: StreamIdentity, instead_of: StreamIdentity | None) -> bool:
        return self.store.adopt(stream, instead_of)

    def begin_describing(self, now: datetime, seen: Remembered) -> bool:
        return self.store.begin_describing(now, seen)

    def keep_placement(self, placement: Placement, asked_at: datetime) -> None:
        self.store.keep_placement(placement, asked_at)

    def keep_streams(self, streams: Mapping[StreamKey, KnownStream]) -> None:
        self.store.keep_streams(streams)

    def forget_stream(self, stream: StreamKey) -> None:
        self.store.forget_stream(stream)

    def define(self, definition: Options, instead_of: Options | None) -> bool:
        return self.store.define(definition, instead_of)

    def keep_dispatched(self, dispatched: Mapping[str, DispatchedWorker], seen_round: int) -> bool:
        return self.store.keep_dispatched(dispatched, seen_round)

    def keep_unread(self, unread: Mapping[str, UnreadShard]) -> None:
        self.store.keep_unread(unread)

    def announce(self, worker_id: str, said: Announcement, lapsed: Collection[str] = ()) -> None:
        self.store.announce(worker_id, said, lapsed)

    def begin_prompted(self, token: str, now: datetime) -> bool:
        return self.store.begin_prompted(token, now)

    def end_prompted(self, token: str) -> bool:
        return self.store.end_prompted(token)
