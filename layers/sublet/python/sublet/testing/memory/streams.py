"""The streams of an application of several, in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sublet.decisions.session.read_position import ReadPosition
from sublet.decisions.streams.chosen_streams import FoundStreams, choose_streams
from sublet.errors import CallFailed, StreamNotFound
from sublet.ports import Refusal, ShardReader, Stream
from sublet.protocol.records import Page
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.protocol.stream_key import StreamKey, identities_of
from sublet.reading.several_streams import StreamOfSeveral
from sublet.settings import StartPosition, StreamChoice


class MemoryStreams:
    """The Streams port. `streams`: the existing streams by name; they may come and go. `tags`: each stream's tags, by
    name.
    """

    def __init__(
        self,
        choice: StreamChoice,
        streams: Mapping[str, Stream],
        tags: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._choice = choice
        self._streams = streams
        self._tags = tags or {}

    def find(self, known: Collection[StreamKey] = ()) -> FoundStreams:
        identities = []
        for name, stream in list(self._streams.items()):
            try:
                identities.append(stream.describe().identity)
            except StreamNotFound:
                continue
            except CallFailed:
                before = identities_of((each for each in known if each.stream == name), self.arn)
                if not before:
                    raise
                identities += before
        tagged = {
            (name, value): frozenset(
                identity.arn
                for identity in identities
                if self._tags.get(StreamKey.of(identity).stream, {}).get(name) == value
            )
            for name, value in self._choice.tags
        }
        return choose_streams(self._choice, identities, tagged)

    def of(self, stream: StreamKey) -> Stream:
        return StreamOfSeveral(stream, _ByName(stream.stream, self._streams))

    def arn(self, stream: StreamKey) -> str:
        return f"arn:aws:kinesis:us-east-1:{stream.account}:stream/{stream.stream}"


@dataclass(frozen=True, slots=True)
class _ByName:
    """The Stream port: the stream that has this name when a call is made, as with Kinesis."""

    name: str
    streams: Mapping[str, Stream]

    def _now(self) -> Stream:
        if self.name not in self.streams:
            raise StreamNotFound(f"there is no stream {self.name}")
        return self.streams[self.name]

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        return self._now().list_shards(at)

    def describe(self) -> StreamDescription:
        return self._now().describe()

    def has_shard(self, shard_id: str) -> bool:
        return self._now().has_shard(shard_id)

    def service_time(self) -> datetime:
        return self._now().service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return _ReaderByName(self._now, shard_id, position)


@dataclass(slots=True)
class _ReaderByName:
    """The ShardReader port: it needs the stream when it is first used."""

    stream: Callable[[], Stream]
    shard_id: str
    position: ReadPosition
    _real: ShardReader | None = field(default=None, init=False)

    def open(self) -> None:
        self._opened().open()

    def read(self, limit: int) -> Page | Refusal:
        return self._opened().read(limit)

    def _opened(self) -> ShardReader:
        if self._real is None:
            self._real = self.stream().reader(self.shard_id, self.position)
        return self._real
