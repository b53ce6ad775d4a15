"""A query that reads the whole of several streams: from their start positions, or from an application's checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from msgspec.structs import replace

from sublet.decisions.streams.stream_parts import with_leases_of
from sublet.ports import LeaseTable, Remembered, SightingStore
from sublet.protocol.lease import LeaseScan
from sublet.protocol.stream_info import NOT_DESCRIBED
from sublet.protocol.stream_key import StreamKey
from sublet.spark.options import Options
from sublet.spark.plan.offsets import Offset
from sublet.spark.plan.offsets_of_several import OffsetOfSeveral
from sublet.spark.plan.planning import ShardRange
from sublet.spark.read.connection import StreamAccess
from sublet.spark.source.portion import Portion
from sublet.spark.source.whole_stream import WholeStream

T = TypeVar("T")


class WholeStreams:
    """The portion of a query of several streams without leases. `leases`, `sightings`: those of the application that
    the query follows, if it follows one.
    """

    application: str | None = None

    def __init__(self, leases: LeaseTable | None, sightings: SightingStore | None = None) -> None:
        self._scan = None if leases is None else _OneLook(leases.scan)
        self._load = None if sightings is None else _OneLook(sightings.load)

    def of_stream(self, stream: StreamKey, access: StreamAccess, options: Options) -> Portion:
        return WholeStream(
            access,
            options,
            None if self._scan is None else _LeasesOf(stream, self._scan),
            None if self._load is None else _SightingsOf(stream, self._load),
        )

    def is_ours(self, shard_id: str) -> bool:  # noqa: ARG002
        return True

    def settle(self) -> None:
        """Nothing to do: no leases are shared."""

    def committed(self, start: OffsetOfSeveral) -> None:  # noqa: ARG002
        """Forgets the last plan's look at the tables: each plan looks once, for all the streams that it begins to
        read.
        """
        for look in (self._scan, self._load):
            if look is not None:
                look.forget()

    def planned(self, end: OffsetOfSeveral) -> None:
        """Nothing to do."""

    def looked_over(self, start: OffsetOfSeveral, ends: Mapping[StreamKey, Offset], listed: Collection[str]) -> None:
        """Nothing to do: Spark asks again."""

    def resume(
        self,
        ranges: Sequence[ShardRange],
        start: OffsetOfSeveral,  # noqa: ARG002
        end: OffsetOfSeveral,  # noqa: ARG002
    ) -> Sequence[ShardRange]:
        return ranges


class _OneLook(Generic[T]):
    """Keeps the first answer for many threads, until it is forgotten."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._answer: T | None = None

    def forget(self) -> None:
        with self._lock:
            self._answer = None

    def __call__(self) -> T:
        with self._lock:
            if self._answer is None:
                self._answer = self._ask()
            return self._answer


@dataclass(frozen=True, slots=True)
class _LeasesOf:
    """The lease table as a table of this stream alone."""

    stream: StreamKey
    scan_all: Callable[[], LeaseScan]

    def scan(self) -> LeaseScan:
        return with_leases_of(self.scan_all(), {self.stream})[0]


@dataclass(frozen=True, slots=True)
class _SightingsOf:
    """The application's sightings as those of this stream alone."""

    stream: StreamKey
    load_all: Callable[[], Remembered]

    def load(self) -> Remembered:
        remembered = self.load_all()
        known = remembered.streams.get(self.stream)
        return replace(remembered, placement=NOT_DESCRIBED if known is None else known.placement)
