"""A query that reads the whole of its streams: from their start positions, or from an application's checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from sublet.decisions.streams.by_stream import with_leases_of
from sublet.errors import LeaseTableError, StreamUnavailable
from sublet.ports import LeaseTable, SightingStore
from sublet.protocol.lease import LeaseScan
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import NOT_DESCRIBED, Placement
from sublet.protocol.stream_key import StreamKey
from sublet.settings import StartKind
from sublet.spark.plan.follow import followed_positions
from sublet.spark.plan.gaps import forgotten_parents
from sublet.spark.plan.lag import ShardLook
from sublet.spark.plan.offsets import Offset, ShardOffset, StreamOffset
from sublet.spark.plan.planning import ShardRange, beginning_shards, first_positions
from sublet.spark.source.portion import QueriedStream
from sublet.spark.source.start_time import time_at_start

LISTING_ATTEMPTS = 5

T = TypeVar("T")


class WholeStreams:
    """The portion of a query without leases. `leases` and `sightings`: the tables of the application that the query
    follows, if it follows one; it starts at their checkpoints. A plan looks at them once, for all the streams that it
    begins to read."""

    application: str | None = None

    def __init__(self, leases: LeaseTable | None, sightings: SightingStore | None = None) -> None:
        self._scan = None if leases is None else _OneLook(leases.scan)
        self._load = None if sightings is None else _OneLook(sightings.load)
        self._placements: dict[StreamKey | None, Placement] = {}

    def settle(self) -> None:
        """Nothing to do: no leases are shared."""

    def settles_again(self, start: Offset) -> bool:  # noqa: ARG002
        return False

    def committed(self, start: Offset) -> None:  # noqa: ARG002
        """Forgets the last plan's look at the tables. Spark has its own checkpoint."""
        for look in (self._scan, self._load):
            if look is not None:
                look.forget()

    def looked(self, found: Mapping[str, ShardLook]) -> None:
        """Nothing to do: it writes to no lease."""

    def wait_for_leases(self, listed: Collection[str]) -> None:
        """Nothing to do: Spark asks again."""

    def planned(self, end: Offset) -> None:
        """Nothing to do."""

    def planned_nothing(self) -> None:
        """Nothing to do."""

    def resume(
        self,
        ranges: Sequence[ShardRange],
        start: Offset,  # noqa: ARG002
        end: Offset,  # noqa: ARG002
        has_shard: Callable[[str], bool],  # noqa: ARG002
    ) -> Sequence[ShardRange]:
        return ranges

    def is_ours(self, shard_id: str) -> bool:  # noqa: ARG002
        return True

    def is_unlisted(self, stream: StreamKey | None, listed: Mapping[str, Shard]) -> bool:  # noqa: ARG002
        return False

    def beginning(
        self,
        stream: QueriedStream,
        start: StreamOffset,
        listed: Mapping[str, Shard],
        denied: Collection[str],
        list_again: Callable[[], Iterable[Shard]],
        now: datetime,
    ) -> Mapping[str, ShardOffset]:
        if start.shards:
            return beginning_shards(start, list(listed.values()), denied)
        return self._first(stream, list_again, now)

    def _first(
        self, stream: QueriedStream, list_again: Callable[[], Iterable[Shard]], now: datetime
    ) -> dict[str, ShardOffset]:
        """The first positions. Lists again while hash keys are missing, as in a listing made during a reshard."""
        position, kinesis = stream.options.start_position, stream.access.stream
        if position.kind is not StartKind.TRIM_HORIZON:
            # With LATEST, a driver whose clock is ahead would skip records that arrive meanwhile.
            now = time_at_start(stream.access, position)
        for attempt in range(1, LISTING_ATTEMPTS + 1):
            scan = self._leases_of(stream.key)  # before the listing: a new shard has none yet
            open_at_start = kinesis.list_shards(position)
            listed = list(list_again())
            try:
                if scan is not None and (scan.leases or scan.malformed):
                    first = followed_positions(scan, listed, position, now)
                else:
                    first = first_positions(listed, open_at_start, position, now)
                return first | forgotten_parents(listed, first)
            except StreamUnavailable:
                if attempt == LISTING_ATTEMPTS:
                    raise
                stream.access.sleep(timedelta(seconds=1))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _leases_of(self, stream: StreamKey | None) -> LeaseScan | None:
        if self._scan is None:
            return None
        return self._scan() if stream is None else with_leases_of(self._scan(), {stream})[0]

    def blocked(self, shards: Iterable[Shard], listed: Mapping[str, Shard]) -> frozenset[str]:  # noqa: ARG002
        return frozenset()

    def placement(self, stream: QueriedStream) -> Placement:
        """Who places the stream's records, as the followed application knew it when the query began with the stream;
        unknown if that cannot be read.
        """
        if stream.key not in self._placements:
            self._placements[stream.key] = self._remembered(stream)
        return self._placements[stream.key]

    def _remembered(self, stream: QueriedStream) -> Placement:
        if self._load is None:
            return NOT_DESCRIBED
        try:
            remembered = self._load()
        except LeaseTableError as problem:
            stream.access.log.info("the application's sightings cannot be read", problem=str(problem))
            return NOT_DESCRIBED
        if stream.key is None:
            return remembered.placement
        known = remembered.streams.get(stream.key)
        return NOT_DESCRIBED if known is None else known.placement


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
