"""An account in memory: streams, and the tables of their consumers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain, pairwise

import msgspec

from sublet.decisions.load.resharding import Merge, Split
from sublet.decisions.session.read_position import SHORTEST_RETENTION
from sublet.decisions.streams.stream_changes import (
    Change,
    RemoveKey,
    SetKey,
    SetMaxRecordKib,
    SetMode,
    SetRetention,
    SetShards,
)
from sublet.engine.manager.memory_sightings import MemorySightingStore
from sublet.errors import LeaseTableNotFound, StreamError, StreamExists, StreamNotFound
from sublet.ports import Clock, Log, Ports, RecordWriter, Signal, Stream, Tasks
from sublet.ports.account import ALL, ApplicationRows, Tags
from sublet.protocol.control import NO_CONTROL
from sublet.protocol.records import NewRecord
from sublet.protocol.shard import Shard
from sublet.protocol.stream_identity import StreamIdentity, stream_settings
from sublet.protocol.stream_info import ACTIVE, AccountInfo, PutRecord, StreamInfo, StreamMode, why_too_large
from sublet.reading.several_streams import with_streams
from sublet.settings import Settings
from sublet.settings.value import SIGHTINGS_SUFFIX, TAG
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks
from sublet.system.tracing import traces_of
from sublet.testing.memory.lease_table import MemoryLeaseTable
from sublet.testing.memory.ports import memory_ports
from sublet.testing.memory.record_writer import MemoryRecordWriter
from sublet.testing.memory.stream import MemoryStream
from sublet.testing.memory.streams import MemoryStreams
from sublet.testing.memory.telemetry import MemoryLog

ON_DEMAND_SHARDS = 4
"""Kinesis' count for a new on-demand stream."""

SHARD_LIMIT, ON_DEMAND_STREAM_LIMIT = 500, 50


class MemoryAccount:
    """The Account port. Safe for threads. Every change is complete at once.

    `at(name)`: the stream itself, to put, split, merge and trim.
    """

    def __init__(self, *, clock: Clock | None = None, tasks: Tasks | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.tasks: Tasks = tasks or ThreadTasks()
        self.log: Log = MemoryLog()
        self._lock = threading.RLock()
        self._streams: dict[str, MemoryStream] = {}
        self._infos: dict[str, StreamInfo] = {}
        self._tables: dict[str, tuple[MemoryLeaseTable, MemorySightingStore]] = {}

    def at(self, stream: str) -> MemoryStream:
        name = _name_of(stream)
        with self._lock:
            if name not in self._streams:
                raise StreamNotFound(f"there is no stream {name}")
            return self._streams[name]

    def streams(self) -> Iterator[str]:
        with self._lock:
            return iter(sorted(self._streams))

    def info(self, stream: str) -> StreamInfo:
        with self._lock:
            count = len(_open(self.at(stream)))
            return msgspec.structs.replace(self._infos[_name_of(stream)], open_shards=count)

    def create(self, stream: str, shards: int | None) -> None:
        with self._lock:
            if stream in self._streams:
                raise StreamExists(f"stream {stream} exists already; update it, or use it as it is")
            count = ON_DEMAND_SHARDS if shards is None else shards
            mode = StreamMode.ON_DEMAND if shards is None else StreamMode.PROVISIONED
            made = self._streams[stream] = MemoryStream(count, clock=self.clock, name=stream)
            self._infos[stream] = StreamInfo(
                stream, made.describe().identity, ACTIVE, mode, count, SHORTEST_RETENTION, None
            )

    def change(self, stream: str, change: Change) -> None:
        with self._lock:
            made, name = self.at(stream), _name_of(stream)
            match change:
                case SetShards(count):
                    _reshard(made, count)
                case SetMode(mode):
                    self._say(name, mode=mode)
                case SetRetention(retention, _):
                    self._say(name, retention=retention)
                case SetMaxRecordKib(kib):
                    self._say(name, max_record_kib=kib)
                case SetKey(key):
                    self._say(name, key=key)
                case Split(shard_id, at):
                    made.split(shard_id, at)
                case Merge(shard_id, adjacent):
                    made.merge(shard_id, adjacent)
                case RemoveKey():
                    self._say(name, key=None)

    def _say(self, name: str, **said: StreamMode | timedelta | str | int | None) -> None:
        self._infos[name] = msgspec.structs.replace(self._infos[name], **said)

    def delete(self, stream: str) -> None:
        with self._lock:
            self.at(stream).delete()
            del self._streams[_name_of(stream)]

    def put(self, stream: str, record: NewRecord) -> PutRecord:
        made = self.at(stream)
        if (why := why_too_large(record, self.info(stream))) is not None:
            raise StreamError(why)
        explicit = None if record.explicit_hash_key is None else int(record.explicit_hash_key)
        return made.put_record(record.partition_key, record.data, explicit)

    def reading(self, stream: str) -> Stream:
        return self.at(stream)

    def writing(self, stream: str) -> RecordWriter:
        name = _name_of(stream)
        return MemoryRecordWriter(self.at(stream), self.clock, max_record_kib=lambda: self._infos[name].max_record_kib)

    def limits(self) -> AccountInfo:
        infos = [self.info(name) for name in self.streams()]
        provisioned = [info for info in infos if info.mode is StreamMode.PROVISIONED]
        return AccountInfo(
            sum(info.open_shards for info in provisioned),
            SHARD_LIMIT,
            len(infos) - len(provisioned),
            ON_DEMAND_STREAM_LIMIT,
        )

    def compose(
        self,
        settings: Settings,
        stop: Signal,  # noqa: ARG002 - nothing takes long
        *,
        may_create: bool,
        say: Callable[[str], None] | None = None,  # noqa: ARG002 - there is nothing to say
    ) -> tuple[Ports, Settings]:
        stream = None if settings.streams is not None else self.at(settings.stream)
        with self._lock:
            if settings.application not in self._tables:
                if not may_create:
                    raise LeaseTableNotFound(f"there is no consumer {settings.application}; create it")
                self._tables[settings.application] = (
                    MemoryLeaseTable(several=settings.streams is not None),
                    MemorySightingStore(),
                )
            table, sightings = self._tables[settings.application]
        ports = memory_ports(
            stream,
            table,
            sightings=sightings,
            clock=self.clock,
            tasks=self.tasks,
            log=self.log,
            traces=traces_of(settings, self.log),
        )
        if settings.streams is not None:
            return with_streams(ports, MemoryStreams(settings.streams, self._streams)), settings
        assert stream is not None
        return ports, replace(settings, stream_arn=stream.describe().identity.arn)

    def applications(self) -> Iterator[str]:
        with self._lock:
            return iter(sorted(self._tables))

    def tables(self, tags: Tags = ALL) -> Iterator[str]:
        """Tables that consumers create have the application's name as their only tag."""
        names = [
            (name, name + SIGHTINGS_SUFFIX)
            for name in self.applications()
            if all(tag == TAG and value in (None, name) for tag, value in tags.items())
        ]
        return iter(sorted(chain.from_iterable(names)))

    def application_rows(self, table: str) -> ApplicationRows | None:
        with self._lock:
            found = self._tables.get(table)
        return None if found is None else ApplicationRows(found[0].scan(), found[1].load(), NO_CONTROL)

    def stream_of(self, application: str) -> StreamIdentity | None:
        with self._lock:
            tables = self._tables.get(application)
        return None if tables is None else tables[1].load().stream

    def delete_tables(self, settings: Settings) -> None:
        with self._lock:
            if settings.application not in self._tables:
                raise LeaseTableNotFound(f"there is no consumer {settings.application}")
            table, sightings = self._tables.pop(settings.application)
        table.delete()
        sightings.delete()


def _name_of(stream: str) -> str:
    return stream_settings(stream)["stream"]


def _open(stream: MemoryStream) -> list[Shard]:
    return sorted((shard for shard in stream.list_shards() if shard.is_open), key=lambda shard: shard.hash_key_range)


def _reshard(stream: MemoryStream, count: int) -> None:
    """Splits the widest shard, or merges the narrowest neighbours, until there are `count`."""
    while len(shards := _open(stream)) < count:
        widest = max(shards, key=lambda shard: shard.hash_key_range.ending - shard.hash_key_range.starting)
        stream.split(widest.shard_id)
    while len(shards := _open(stream)) > count:
        low, high = min(
            pairwise(shards), key=lambda pair: pair[1].hash_key_range.ending - pair[0].hash_key_range.starting
        )
        stream.merge(low.shard_id, high.shard_id)
