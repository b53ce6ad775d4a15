"""Paces a tick's calls to Kinesis in an application of several streams: hundreds of them would otherwise be called at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.decisions.session.read_position import ReadPosition
from sublet.ports import Clock, PollRefusal, Refusal, ShardReader, Stream, Tasks
from sublet.protocol.records import Page
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.settings import StartPosition

CALLS_PER_SECOND = 27
"""At this rate 200 streams of one shard each take 8 seconds. An account may call DescribeStreamSummary 20 times a
second; few of our calls are of that kind.
"""

LASTS = timedelta(seconds=8.5)
"""In an application of several streams, a tick begins no call after this time. Calls that are already waiting take
another second.
"""
NO_TIME = timedelta(0)


@dataclass(slots=True)
class Pacer:
    """`wait` returns at most CALLS_PER_SECOND times a second over all threads. Each tick calls `begin` first."""

    clock: Clock
    tasks: Tasks
    _next: datetime | None = field(default=None, init=False)
    _ends: datetime | None = field(default=None, init=False)
    _lock: AbstractContextManager[object] = field(init=False)
    """Guards `_next`."""

    def __post_init__(self) -> None:
        self._lock = self.tasks.lock()

    def begin(self) -> None:
        self._ends = self.clock.steady() + LASTS

    def time_left(self) -> timedelta:
        """How long the current tick may still begin calls."""
        return LASTS if self._ends is None else max(self._ends - self.clock.steady(), NO_TIME)

    def wait(self) -> None:
        with self._lock:
            now = self.clock.steady()
            turn = now if self._next is None else max(now, self._next)
            self._next = turn + timedelta(seconds=1) / CALLS_PER_SECOND
        if turn > now:
            self.tasks.signal().wait(turn - now)


@dataclass(frozen=True, slots=True)
class PacedStream:
    """The Stream port: each call waits for its turn."""

    real: Stream
    wait: Callable[[], None]

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        self.wait()
        return self.real.list_shards(at)

    def describe(self) -> StreamDescription:
        self.wait()
        return self.real.describe()

    def has_shard(self, shard_id: str) -> bool:
        self.wait()
        return self.real.has_shard(shard_id)

    def service_time(self) -> datetime:
        self.wait()
        return self.real.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PacedReader(self.real.reader(shard_id, position), self.wait)


@dataclass(slots=True)
class PacedReader:
    """The ShardReader port: each call waits for its turn, including the one that opens the shard."""

    real: ShardReader
    wait: Callable[[], None]
    _is_open: bool = field(default=False, init=False)

    def open(self) -> None:
        self.wait()
        self.real.open()
        self._is_open = True

    def read(self, limit: int) -> Page | Refusal:
        if not self._is_open:
            self.open()
        self.wait()
        page = self.real.read(limit)
        self._is_open = page is not PollRefusal.ITERATOR_EXPIRED
        return page
