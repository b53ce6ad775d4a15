"""A query that reads the whole stream: all its shards, from `startPosition` or from an application's checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from sublet.errors import LeaseTableError, StreamUnavailable
from sublet.ports import Remembered
from sublet.protocol.lease import LeaseScan
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import NOT_DESCRIBED, Placement
from sublet.settings import StartKind
from sublet.spark.options import Options
from sublet.spark.plan.follow import followed_positions
from sublet.spark.plan.gaps import forgotten_parents
from sublet.spark.plan.lag import ShardLook
from sublet.spark.plan.offsets import Offset, ShardOffset
from sublet.spark.plan.planning import ShardRange, beginning_shards, first_positions
from sublet.spark.read.connection import StreamAccess

LISTING_ATTEMPTS = 5


class ScannedLeases(Protocol):
    """Part of the LeaseTable port."""

    def scan(self) -> LeaseScan: ...


class Sightings(Protocol):
    """Part of the SightingStore port."""

    def load(self) -> Remembered: ...


class WholeStream:
    """The portion of a query without leases. `leases` and `sightings`: the tables of the application that the query
    follows, if it follows one; it starts at their checkpoints."""

    application: str | None = None

    def __init__(
        self,
        connection: StreamAccess,
        options: Options,
        leases: ScannedLeases | None,
        sightings: Sightings | None = None,
    ) -> None:
        self._connection = connection
        self._options = options
        self._leases = leases
        self._sightings = sightings
        self._placement: Placement | None = None

    def settle(self) -> None:
        """Nothing to do: no leases are shared."""

    def committed(self, start: Offset) -> None:
        """Nothing to do: Spark has its own checkpoint."""

    def looked(self, found: Mapping[str, ShardLook]) -> None:
        """Nothing to do: it writes to no lease."""

    def planned(self, end: Offset) -> None:
        """Nothing to do."""

    def is_ours(self, shard_id: str) -> bool:  # noqa: ARG002
        return True

    def is_unlisted(self, listed: Mapping[str, Shard]) -> bool:  # noqa: ARG002
        return False

    def blocked(self, shards: Iterable[Shard], listed: Mapping[str, Shard]) -> frozenset[str]:  # noqa: ARG002
        return frozenset()

    def resume(self, ranges: Sequence[ShardRange], start: Offset, end: Offset) -> Sequence[ShardRange]:  # noqa: ARG002
        return ranges

    def placement(self) -> Placement:
        """Who places the stream's records, as the followed application knew it when the query started; unknown if that
        cannot be read.
        """
        if self._placement is None:
            self._placement = NOT_DESCRIBED if self._sightings is None else self._remembered(self._sightings)
        return self._placement

    def _remembered(self, sightings: Sightings) -> Placement:
        try:
            return sightings.load().placement
        except LeaseTableError as problem:
            self._connection.log.info("the application's sightings cannot be read", problem=str(problem))
            return NOT_DESCRIBED

    def beginning(
        self,
        start: Offset,
        listed: Mapping[str, Shard],
        denied: Collection[str],
        list_again: Callable[[], Iterable[Shard]],
        now: datetime,
    ) -> Mapping[str, ShardOffset]:
        if start.shards:
            return beginning_shards(start, list(listed.values()), denied)
        return self._first(list_again, now)

    def _first(self, list_again: Callable[[], Iterable[Shard]], now: datetime) -> dict[str, ShardOffset]:
        """The first positions. Lists again while hash keys are missing, as in a listing made during a reshard."""
        position, stream = self._options.start_position, self._connection.stream
        if position.kind is StartKind.LATEST:
            now = stream.service_time()  # a driver whose clock is ahead would skip records that arrive meanwhile
        for attempt in range(1, LISTING_ATTEMPTS + 1):
            # Leases first: a new shard has none yet.
            scan = self._leases.scan() if self._leases is not None else None
            open_at_start = stream.list_shards(position)
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
                self._connection.sleep(timedelta(seconds=1))
        raise AssertionError("unreachable: the last attempt returns or raises")
