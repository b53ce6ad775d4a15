"""A query that reads the whole of several streams: from their start positions, or from an application's checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from sublet.decisions.stream_parts import with_leases_of
from sublet.ports import LeaseTable, Remembered, SightingStore
from sublet.protocol.lease import LeaseScan
from sublet.protocol.stream_info import NOT_DESCRIBED
from sublet.protocol.stream_key import StreamKey
from sublet.spark.options import Options
from sublet.spark.plan.offsets import Offset
from sublet.spark.plan.offsets_of_several import OffsetOfSeveral
from sublet.spark.plan.planning import ShardRange
from sublet.spark.read.connection import StreamAccess
from sublet.spark.source.driver import Portion
from sublet.spark.source.whole_stream import WholeStream


class WholeStreams:
    """`leases`, `sightings`: of the application that the query follows, if it follows one."""

    application: str | None = None

    def __init__(self, leases: LeaseTable | None, sightings: SightingStore | None = None) -> None:
        self._table = None if leases is None else _OneScan(leases)
        self._sightings = sightings

    def of_stream(self, stream: StreamKey, access: StreamAccess, options: Options) -> Portion:
        return WholeStream(
            access,
            options,
            None if self._table is None else _LeasesOf(stream, self._table),
            None if self._sightings is None else _SightingsOf(stream, self._sightings),
        )

    def settle(self) -> None:
        """Nothing to do: no leases are shared."""

    def committed(self, start: OffsetOfSeveral) -> None:  # noqa: ARG002
        """One plan looks at the table once, for all the streams that it begins to read."""
        if self._table is not None:
            self._table.forget()

    def planned(self, end: OffsetOfSeveral) -> None:
        """Nothing to do."""

    def looked_over(
        self, start: OffsetOfSeveral, ends: Mapping[StreamKey, Offset], listed: Collection[str]
    ) -> None:
        """Nothing to do: Spark asks again."""

    def resume(
        self,
        ranges: Sequence[ShardRange],
        start: OffsetOfSeveral,  # noqa: ARG002
        end: OffsetOfSeveral,  # noqa: ARG002
    ) -> Sequence[ShardRange]:
        return ranges


class _OneScan:
    """A scan for many threads."""

    def __init__(self, table: LeaseTable) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._scan: LeaseScan | None = None

    def forget(self) -> None:
        with self._lock:
            self._scan = None

    def scan(self) -> LeaseScan:
        with self._lock:
            if self._scan is None:
                self._scan = self._table.scan()
            return self._scan


@dataclass(frozen=True, slots=True)
class _LeasesOf:
    """The table, as if it were of this stream alone."""

    stream: StreamKey
    table: _OneScan

    def scan(self) -> LeaseScan:
        return with_leases_of(self.table.scan(), {self.stream})[0]


@dataclass(frozen=True, slots=True)
class _SightingsOf:
    """What the application remembers, as if it were of this stream alone."""

    stream: StreamKey
    sightings: SightingStore

    def load(self) -> Remembered:
        remembered = self.sightings.load()
        known = remembered.streams.get(self.stream)
        return replace(remembered, placement=NOT_DESCRIBED if known is None else known.placement)
