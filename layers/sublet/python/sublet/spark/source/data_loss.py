"""Fails the query, or warns, if records were lost: they were not read and no longer can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from sublet.errors import DataGap
from sublet.ports import Log
from sublet.protocol.shard import Shard
from sublet.spark.options import Options
from sublet.spark.plan.gaps import is_past, named, unread_since
from sublet.spark.plan.offsets import Position, ReadTo, ShardOffset
from sublet.spark.read.connection import StreamAccess
from sublet.spark.read.peeks import Peeker


class Losses:
    """Reports lost records. Each method raises DataGap or, if `failOnDataLoss` is off, logs a warning."""

    def __init__(self, connection: StreamAccess, options: Options, peeker: Peeker) -> None:
        self._connection = connection
        self._options = options
        self._peeker = peeker

    def gone(self, shard_id: str, position: Position) -> None:
        """Reports a shard that was not read to its end, and that the service no longer knows, because it closed so long
        ago.
        """
        self._tell(
            f"shard {shard_id}, {_read_so_far(position)}, is gone: it was closed, and the rest of it is past retention"
        )

    def never_read(self, parents: Iterable[str], child: str) -> None:
        """Reports shards that came and went while the query was away."""
        self._tell(
            f"shard {child}: nothing was read of its parents {' and '.join(sorted(parents))}, which are gone. "
            "They came and went since the query last looked, perhaps after others; all of their records are past "
            f"retention, and the first ones of {child} may be"
        )

    def look(self, shard_id: str, shard: ShardOffset, listed: Mapping[str, Shard], now: datetime) -> None:
        """Reports the shard if unread records of it are past retention."""
        if isinstance(shard.position, ReadTo):
            if not self._peeker.holds(shard_id, shard.position):
                self._tell(
                    f"shard {shard_id}: {named(shard.position)} is past retention, and unread records after it may be"
                )
        elif is_past(self._connection.stream.describe().retention, shard, now):
            parents = listed[shard_id].parent_shard_ids if shard_id in listed else frozenset()
            if not any(self._peeker.holds_any(parent) for parent in sorted(parents & listed.keys())):
                since = unread_since(shard)
                self._tell(f"shard {shard_id}, never read: records that arrived since {since} may be past retention")

    def _tell(self, what: str) -> None:
        tell_of_gap(self._connection.log, self._options, self._options.stream, what)


def tell_of_gap(log: Log, options: Options, stream: str, what: str) -> None:
    """Raises DataGap or, if `failOnDataLoss` is off, logs a warning."""
    message = f"stream {stream}: {what}"
    if options.fail_on_data_loss:
        raise DataGap(f"{message}. Set failOnDataLoss to false to go on with what is left")
    log.warning("data gap", what=message)


def _read_so_far(position: Position) -> str:
    return f"read up to {named(position)}" if isinstance(position, ReadTo) else "never read"
