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
from sublet.spark.read.peeks import Peeker
from sublet.spark.source.at_once import at_once
from sublet.spark.source.descriptions import Descriptions


class Losses:
    """Reports lost records. Each method raises DataGap or, if `failOnDataLoss` is off, logs a warning."""

    def __init__(self, log: Log, options: Options, peeker: Peeker, described: Descriptions) -> None:
        self._log = log
        self._options = options
        self._peeker = peeker
        self._described = described

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

    def look(self, shards: Mapping[str, ShardOffset], listed: Mapping[str, Shard], now: datetime) -> None:
        """Reports those of the shards of which unread records are past retention. Looks into many at once."""
        read = {key: shard.position for key, shard in shards.items() if isinstance(shard.position, ReadTo)}
        for shard_id, is_there in at_once(lambda key: self._peeker.holds(key, read[key]), read).items():
            if not is_there:
                self._tell(
                    f"shard {shard_id}: {named(read[shard_id])} is past retention, and unread records after it may be"
                )
        if unread := {key: shard for key, shard in shards.items() if key not in read}:
            self._look_at_parents(unread, listed, now)

    def _look_at_parents(self, unread: Mapping[str, ShardOffset], listed: Mapping[str, Shard], now: datetime) -> None:
        """Reports those of these shards, of which nothing was read, whose first records may be past retention: their
        parents have no record any more. Asks each parent once, though a split's has two children.
        """
        retention = self._described.last.retention
        parents = {
            shard_id: (listed[shard_id].parent_shard_ids & listed.keys() if shard_id in listed else frozenset())
            for shard_id, shard in unread.items()
            if is_past(retention, shard, now)
        }
        has_records = at_once(self._peeker.holds_any, frozenset[str]().union(*parents.values()))
        for shard_id, asked in parents.items():
            if not any(has_records[parent] for parent in asked):
                since = unread_since(unread[shard_id])
                self._tell(f"shard {shard_id}, never read: records that arrived since {since} may be past retention")

    def _tell(self, what: str) -> None:
        tell_of_gap(self._log, self._options, self._options.stream, what)


def tell_of_gap(log: Log, options: Options, stream: str, what: str) -> None:
    """Raises DataGap or, if `failOnDataLoss` is off, logs a warning."""
    message = f"stream {stream}: {what}"
    if options.fail_on_data_loss:
        raise DataGap(f"{message}. Set failOnDataLoss to false to go on with what is left")
    log.warning("data gap", what=message)


def _read_so_far(position: Position) -> str:
    return f"read up to {named(position)}" if isinstance(position, ReadTo) else "never read"
