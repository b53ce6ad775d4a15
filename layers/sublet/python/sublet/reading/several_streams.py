"""Several streams as one: the Stream port over an application's streams, whose shards are named by stream and shard.

An application of one stream uses none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.decisions.session.push import PushEnd
from sublet.decisions.session.read_position import ReadPosition
from sublet.decisions.streams.by_stream import with_leases_of
from sublet.decisions.streams.chosen_streams import settings_for
from sublet.decisions.streams.operated_streams import shard_named
from sublet.errors import ShardNotFound, StreamError, StreamNotFound
from sublet.ports import (
    Applied,
    LeaseTable,
    Ports,
    Pushed,
    Pushes,
    Refusal,
    Refused,
    ShardReader,
    ShardSubscription,
    Stream,
    Streams,
    Unanswered,
)
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_writes import LeaseWrite
from sublet.protocol.records import Page
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.protocol.stream_key import (
    StreamKey,
    child_in_stream,
    in_stream,
    own_id,
    shard_in_stream,
    stream_key_of,
)
from sublet.settings import Settings, StartPosition


@dataclass(frozen=True, slots=True)
class StreamOfSeveral:
    """The Stream port: `real` with its shards named as in the application."""

    key: StreamKey
    real: Stream

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        return tuple(shard_in_stream(self.key, shard) for shard in self.real.list_shards(at))

    def describe(self) -> StreamDescription:
        """Raises StreamNotFound for another stream of the same name, such as one that was created again."""
        found = self.real.describe()
        if self.key.is_dated and StreamKey.of(found.identity).epoch != self.key.epoch:
            raise StreamNotFound(f"stream {self.key} is gone: there is {found.identity} instead")
        return found

    def has_shard(self, shard_id: str) -> bool:
        return self.real.has_shard(own_id(shard_id))

    def service_time(self) -> datetime:
        return self.real.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return _NamedShardReader(self.key, self.real.reader(own_id(shard_id), position))


@dataclass(frozen=True, slots=True)
class _NamedShardReader:
    """The ShardReader port: pages name a shard's children as in the application."""

    key: StreamKey
    real: ShardReader

    def open(self) -> None:
        self.real.open()

    def read(self, limit: int) -> Page | Refusal:
        page = self.real.read(limit)
        return page if isinstance(page, Refusal) else _page_in_stream(self.key, page)


def _page_in_stream(key: StreamKey, page: Page) -> Page:
    if not page.child_shards:
        return page
    return page._replace(child_shards=tuple(child_in_stream(key, each) for each in page.child_shards))


@dataclass(frozen=True, slots=True)
class AllPushes:
    """The Pushes port over several streams: a shard's stream says which consumer subscribes to it."""

    of: Callable[[StreamKey], Pushes]

    def subscribe(self, shard_id: str, position: ReadPosition) -> ShardSubscription | PushEnd | Unanswered:
        key = _stream_named(shard_id)
        answer = self.of(key).subscribe(own_id(shard_id), position)
        return answer if isinstance(answer, PushEnd | Unanswered) else _NamedShardSubscription(key, answer)


@dataclass(frozen=True, slots=True)
class _NamedShardSubscription:
    """The ShardSubscription port: pages name a shard's children as in the application."""

    key: StreamKey
    real: ShardSubscription

    def wait(self, longest: timedelta) -> bool:
        return self.real.wait(longest)

    def next(self) -> Pushed | PushEnd | Unanswered:
        came = self.real.next()
        if isinstance(came, PushEnd | Unanswered):
            return came
        return came._replace(page=_page_in_stream(self.key, came.page))

    @property
    def has_more(self) -> bool:
        return self.real.has_more

    def interrupt(self) -> None:
        self.real.interrupt()

    def close(self) -> None:
        self.real.close()


@dataclass(frozen=True, slots=True)
class AllStreams:
    """The Stream port over all of them: each call goes to the stream that the shard's name begins with."""

    streams: Streams

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        """Lists the shards of every stream that exists, with a call for each."""
        shards: list[Shard] = []
        for found in self.streams.find().streams:
            with suppress(StreamNotFound):
                shards += self.streams.of(found.stream).list_shards(at)
        return tuple(shards)

    def describe(self) -> StreamDescription:
        raise StreamError("several streams have no common description: describe one of them")

    def has_shard(self, shard_id: str) -> bool:
        return self._of(shard_id).has_shard(shard_id)

    def service_time(self) -> datetime:
        for found in self.streams.find().streams:
            return self.streams.of(found.stream).service_time()
        raise StreamNotFound(
            "no stream in this account and region matches the setting streams; check the names, "
            "and the region (AWS_DEFAULT_REGION)"
        )

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return self._of(shard_id).reader(shard_id, position)

    def _of(self, shard_id: str) -> Stream:
        return self.streams.of(_stream_named(shard_id))


def _stream_named(shard_id: str) -> StreamKey:
    key = stream_key_of(shard_id)
    if key is None:
        raise ShardNotFound(
            f"shard {shard_id} names no stream: the full name is account:stream:creation epoch:shard id"
        )
    return key


@dataclass(frozen=True, slots=True)
class LeasesOfStreams:
    """The LeaseTable port, where a scan finds the leases of these streams alone."""

    real: LeaseTable
    streams: frozenset[StreamKey]

    def scan(self) -> LeaseScan:
        return with_leases_of(self.real.scan(), self.streams)[0]

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        return self.real.get(lease_key)

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        return self.real.apply(write)


def streams_read(ports: Ports) -> tuple[StreamKey, ...]:
    """The streams that the application reads; empty in an application of one. Raises what Streams raises."""
    return () if ports.streams is None else tuple(found.stream for found in ports.streams.find().streams)


def named_shards(names: Iterable[str], ports: Ports) -> tuple[str, ...]:
    """The full names of the shards that an operator names. Raises ShardNotFound and what Streams raises."""
    given = tuple(names)
    streams = streams_read(ports) if given else ()
    return tuple(shard_named(name, streams) for name in given)


def ports_of_stream(ports: Ports, shard: str) -> Ports:
    """The ports of one shard's stream. In an application of one stream, the same ones."""
    key = None if ports.streams is None else stream_key_of(shard)
    return ports if ports.streams is None or key is None else replace(ports, stream=ports.streams.of(key))


def settings_of_stream(settings: Settings, ports: Ports, shard: str) -> Settings:
    """The settings by which one shard's stream is read. In an application of one stream, the same ones."""
    key = None if ports.streams is None else stream_key_of(shard)
    if ports.streams is None or key is None:
        return settings
    return settings_for(key, ports.streams.arn(key), settings)


def with_streams(ports: Ports, streams: Streams | None) -> Ports:
    """Makes the ports read these streams; without any, the one that they read already."""
    return ports if streams is None else replace(ports, stream=AllStreams(streams), streams=streams)


class OneStream(NamedTuple):
    """A stream of an application. `key`: None if the application reads this stream alone."""

    settings: Settings
    ports: Ports
    key: StreamKey | None = None

    def full_name(self, shard_id: str) -> str:
        return shard_id if self.key is None else in_stream(self.key, shard_id)

    @property
    def named(self) -> str:
        """The name or ARN by which the account finds the stream, which may be another account's."""
        return self.settings.stream_arn or self.settings.stream


def each_stream(settings: Settings, ports: Ports) -> tuple[OneStream, ...]:
    """The application's streams. Raises what Streams raises."""
    if ports.streams is None:
        return (OneStream(settings, ports),)
    return tuple(
        OneStream(
            settings_of_stream(settings, ports, in_stream(key, "")),
            replace(
                ports_of_stream(ports, in_stream(key, "")),
                table=LeasesOfStreams(ports.table, frozenset({key})),
            ),
            key,
        )
        for key in streams_read(ports)
    )
