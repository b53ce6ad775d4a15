"""Repeats calls to a stream through transient failures, such as throttled listings or a service that fails for a
while.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import TypeVar

from sublet.decisions.session.pace import throttled_until
from sublet.decisions.session.read_position import ReadPosition
from sublet.decisions.streams.chosen_streams import FoundStreams
from sublet.errors import StreamUnavailable, StreamUnreachable
from sublet.ports import Clock, Refusal, ShardReader, Stream, Streams
from sublet.protocol.records import GetRecordsReply
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.protocol.stream_key import StreamKey
from sublet.reading.polling import PolledStream, PollingReader
from sublet.settings import StartPosition
from sublet.spark.read.pace import Sleep

T = TypeVar("T")


class RepeatedCalls:
    """Repeats each call for up to `patience` before it raises StreamUnavailable.

    It does not repeat the first call if that gets no reply at all, which means a wrong endpoint or no network rather
    than a busy service.
    """

    def __init__(self, clock: Clock, sleep: Sleep, patience: timedelta) -> None:
        self._clock = clock
        self._sleep = sleep
        self._patience = patience
        self._has_answered = False

    def asked(self, call: Callable[[], T]) -> T:
        since, refusals = self._clock.steady(), 0
        while True:
            try:
                answer = call()
            except StreamUnavailable as problem:
                now, refusals = self._clock.steady(), refusals + 1
                has_been_there = self._has_answered or not isinstance(problem, StreamUnreachable)
                if now - since > self._patience or not has_been_there:
                    raise
                self._sleep(throttled_until(now, refusals) - now)
            else:
                self._has_answered = True
                return answer


class PatientStreams:
    """The Streams port. Repeats the calls that find streams, as `RepeatedCalls` says, but not the streams' own
    calls.
    """

    def __init__(self, inner: Streams, clock: Clock, sleep: Sleep, patience: timedelta) -> None:
        self._inner = inner
        self._asked = RepeatedCalls(clock, sleep, patience).asked

    def find(self, known: Collection[StreamKey] = ()) -> FoundStreams:
        return self._asked(lambda: self._inner.find(known))

    def of(self, stream: StreamKey) -> Stream:
        return self._inner.of(stream)

    def arn(self, stream: StreamKey) -> str:
        return self._inner.arn(stream)


class PatientStream:
    """The Stream port. Repeats each call as `RepeatedCalls` says."""

    def __init__(self, inner: PolledStream, clock: Clock, sleep: Sleep, patience: timedelta) -> None:
        self._inner = inner
        self._asked = RepeatedCalls(clock, sleep, patience).asked

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        return self._asked(lambda: self._inner.list_shards(at))

    def describe(self) -> StreamDescription:
        return self._asked(self._inner.describe)

    def has_shard(self, shard_id: str) -> bool:
        return self._asked(lambda: self._inner.has_shard(shard_id))

    def service_time(self) -> datetime:
        return self._asked(self._inner.service_time)

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        return self._asked(lambda: self._inner.open(shard_id, position))

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | Refusal:
        return self._asked(lambda: self._inner.poll(iterator, limit))
