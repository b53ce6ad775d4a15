"""What a batch read reads: a range for each shard, with ends that exist, so that a task run again gives the same rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from sublet.errors import SettingsError
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.shard import Shard
from sublet.settings import HashRangeFilter
from sublet.spark.options import Options
from sublet.spark.plan.offsets import Ended, ReadTo, Unread
from sublet.spark.plan.planning import Begin, ShardRange
from sublet.spark.read.connection import Connection
from sublet.spark.read.peeks import Peeker
from sublet.spark.read.reading import Task

LOOKS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Wanted:
    """What Spark's filters leave of the options. None: no filter of the kind."""

    shard_ids: frozenset[str] | None = None
    since: datetime | None = None
    until: datetime | None = None


def plan_batch(connection: Connection, options: Options, wanted: Wanted) -> list[Task]:
    """A task for each shard that may have rows, in order of shard ids. Raises what Stream raises."""
    shards = sorted(
        (
            s
            for s in connection.stream.list_shards()
            if wanted.shard_ids is None or s.shard_id in wanted.shard_ids
        ),
        key=lambda shard: shard.shard_id,
    )
    peeker = Peeker(connection)
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        ranges = list(pool.map(lambda shard: _range(connection, peeker, options, wanted, shard), shards))
    return [Task(options.stream, each, options.fail_on_data_loss) for each in ranges if each is not None]


def _range(
    connection: Connection, peeker: Peeker, options: Options, wanted: Wanted, shard: Shard
) -> ShardRange | None:
    begin = _begin(options, wanted, shard)
    if begin is None:
        return None
    hash_key_range = shard.hash_key_range if options.hash_range_filter is HashRangeFilter.KCL else None
    since = max((m for m in (options.start_position.at, wanted.since) if m is not None), default=None)
    until = _until(options, wanted, connection.clock.now())
    end, sub = None, None
    if options.end_checkpoints is not None:
        checkpoint = options.end_checkpoints.get(shard.shard_id)
        if checkpoint is None or _is_empty(begin, checkpoint):
            return None
        if not checkpoint.is_shard_end:
            end, sub = checkpoint.sequence_number, checkpoint.sub_sequence_number
        elif shard.is_open:
            raise SettingsError(
                "endCheckpoints", f"{shard.shard_id}: {checkpoint}", "the shard has not ended"
            )
    elif until is None:
        tip = peeker.tip(shard, begin).end
        if tip is None:
            return None
        end = None if isinstance(tip, Ended) else tip.sequence_number
    verify = isinstance(begin, ReadTo)
    return ShardRange(shard.shard_id, hash_key_range, begin, end, verify, sub, since, until)


def _begin(options: Options, wanted: Wanted, shard: Shard) -> Begin | None:
    """None: the shard has been read to its end."""
    if options.start_checkpoints is None:
        return Unread(
            max((m for m in (options.start_position.at, wanted.since) if m is not None), default=None)
        )
    checkpoint = options.start_checkpoints.get(shard.shard_id)
    if checkpoint is None:
        return Unread()
    if checkpoint.is_shard_end:
        return None
    if not checkpoint.is_sequence_number:
        return Unread()
    return ReadTo(checkpoint.sequence_number, None, checkpoint.sub_sequence_number)


def _until(options: Options, wanted: Wanted, now: datetime) -> datetime | None:
    """Never after now: what has arrived by then is all there."""
    given = options.end_position.at if options.end_position is not None else None
    ends = [moment for moment in (given, wanted.until) if moment is not None]
    return min(*ends, now) if ends else None


def _is_empty(begin: Begin, end: Checkpoint) -> bool:
    if not isinstance(begin, ReadTo) or not end.is_sequence_number:
        return not end.is_sequence_number and not end.is_shard_end
    return Checkpoint(begin.sequence_number, begin.sub_sequence_number or 0) >= end
