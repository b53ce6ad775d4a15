"""What a batch read reads: a range per shard, with ends that exist, so that a repeated task gives the same rows. Of
several streams it reads what a read of each alone would read.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from sublet.errors import SettingsError, StreamError, StreamUnavailable
from sublet.ports import Streams
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import NOT_DESCRIBED, Placement
from sublet.protocol.stream_key import StreamKey, own_id, stream_key_of
from sublet.settings import HashRangeFilter
from sublet.spark.options import Options
from sublet.spark.plan.offsets import Ended, ReadTo, Unread
from sublet.spark.plan.planning import Begin, ShardRange
from sublet.spark.read.connection import StreamAccess, StreamsAccess, of_stream
from sublet.spark.read.found_streams import check_all_found
from sublet.spark.read.pages import first_record_at
from sublet.spark.read.peeks import Peeker
from sublet.spark.read.reading import ReadTask
from sublet.spark.source.at_once import at_once
from sublet.spark.source.data_loss import tell_of_gap
from sublet.spark.source.start_time import time_at_start

STREAMS_AT_ONCE = 16
"""Streams that are planned at the same time. Each looks into several of its shards at once."""


@dataclass(frozen=True, slots=True)
class ReadScope:
    """The options narrowed by Spark's filters. None: no filter of the kind."""

    shard_ids: frozenset[str] | None = None
    streams: frozenset[str] | None = None
    since: datetime | None = None
    until: datetime | None = None

    def has(self, shard_id: str) -> bool:
        """Whether the filter lets the shard pass, which may be a shard of one of several streams."""
        return self.shard_ids is None or own_id(shard_id) in self.shard_ids

    def has_stream(self, stream: str) -> bool:
        return self.streams is None or stream in self.streams


def plan_batch(access: StreamsAccess, options: Options, wanted: ReadScope) -> list[ReadTask]:
    """A task for each shard that may have rows, in order of streams and shard ids. Raises DataGap, StreamNotFound for a
    stream that is named but does not exist, and what Stream raises.
    """
    streams = _streams(access.streams, options)
    with ThreadPoolExecutor(STREAMS_AT_ONCE) as pool:
        planned = pool.map(
            lambda key: plan_stream(of_stream(access.connect(streams[key]), key), streams[key], wanted), streams
        )
        return [task for tasks in planned for task in tasks]


def _streams(streams: Streams | None, options: Options) -> dict[StreamKey | None, Options]:
    """The streams to read, in order, each with the options of a read of it alone."""
    if streams is None:
        return {None: options}
    found = streams.find()
    check_all_found(found, options)
    chosen = sorted(found.streams, key=lambda each: each.stream)
    _check_named_streams({each.stream for each in chosen}, options)
    return {each.stream: options.of_stream(each.stream, streams.arn(each.stream), each.start) for each in chosen}


def _check_named_streams(streams: Collection[StreamKey], options: Options) -> None:
    """Raises SettingsError for a checkpoint of a stream that is not read."""
    for option, checkpoints in (
        ("startCheckpoints", options.start_checkpoints),
        ("endCheckpoints", options.end_checkpoints),
    ):
        for name in sorted(checkpoints or {}):
            if stream_key_of(name) not in streams:
                raise SettingsError(
                    option,
                    name,
                    "of several streams, shards are named as their leases are: account:stream:creation epoch:shardId, "
                    "of a stream that the option stream names",
                )


def plan_stream(connection: StreamAccess, options: Options, wanted: ReadScope) -> list[ReadTask]:
    """The tasks of one stream."""
    if not wanted.has_stream(options.stream):
        return []
    listed = connection.stream.list_shards()
    _check_named_shards(connection, options, wanted, {shard.shard_id for shard in listed})
    shards = {shard.shard_id: shard for shard in listed if wanted.has(shard.shard_id)}
    peeker, first = Peeker(connection), _first(connection, options, wanted)
    ranges = at_once(lambda key: _range(connection, peeker, options, wanted, shards[key], first), sorted(shards))
    placement = _placement(connection, options)
    return [
        ReadTask(
            options.stream,
            each,
            options.fail_on_data_loss,
            placement=placement,
            stream_arn=options.stream_arn,
        )
        for each in ranges.values()
        if each is not None
    ]


def _placement(connection: StreamAccess, options: Options) -> Placement:
    """Asks who places records, once everything to be read has arrived. If there is no answer, nothing is dropped."""
    if options.hash_range_filter is HashRangeFilter.OFF:
        return NOT_DESCRIBED
    try:
        return NOT_DESCRIBED.with_description(connection.stream.describe())
    except StreamError as problem:
        connection.log.warning("stream's record distribution unknown", problem=str(problem))
        return NOT_DESCRIBED


def _check_named_shards(connection: StreamAccess, options: Options, wanted: ReadScope, listed: Collection[str]) -> None:
    """Raises DataGap for a shard that the checkpoints name and the stream does not have."""
    starts, ends = options.start_checkpoints or {}, options.end_checkpoints
    for shard_id in sorted(starts.keys() if ends is None else ends.keys()):
        start, end = starts.get(shard_id), None if ends is None else ends[shard_id]
        is_handled = start is not None and start.is_shard_end
        is_nothing_wanted = end is not None and not end.is_sequence_number and not end.is_shard_end
        if shard_id in listed or not wanted.has(shard_id) or is_handled or is_nothing_wanted:
            continue
        if connection.stream.has_shard(shard_id):
            raise StreamUnavailable(f"the listing of shards leaves out {shard_id}, which exists; list again")
        tell_of_gap(
            connection.log,
            options,
            options.stream,
            f"there is no shard {shard_id}, to be read from {start or 'the beginning'} to {end or 'the end'}: that is "
            "past retention, or the shard is another stream's",
        )


def _range(
    connection: StreamAccess, peeker: Peeker, options: Options, wanted: ReadScope, shard: Shard, first: Unread
) -> ShardRange | None:
    begin = _begin(options, shard, first)
    if begin is None:
        return None
    hash_key_range = shard.hash_key_range if options.hash_range_filter is HashRangeFilter.KCL else None
    until = _until(options, wanted, connection.clock.now())
    end, sub = None, None
    if options.end_checkpoints is not None:
        checkpoint = options.end_checkpoints.get(shard.shard_id)
        if checkpoint is None or _is_empty(begin, checkpoint):
            return None
        if not checkpoint.is_shard_end:
            end, sub = checkpoint.sequence_number, checkpoint.sub_sequence_number
            begin = _no_later_than(end, connection, shard.shard_id, begin)
        elif shard.is_open:
            raise SettingsError("endCheckpoints", f"{shard.shard_id}: {checkpoint}", "the shard has not ended")
    elif until is None:
        tip = peeker.tip(shard, begin).end
        if tip is None:
            return None
        end = None if isinstance(tip, Ended) else tip.sequence_number
    return ShardRange(
        shard.shard_id,
        hash_key_range,
        begin,
        end,
        verify=isinstance(begin, ReadTo),
        end_sub_sequence_number=sub,
        since=_since(options, wanted),
        until=until,
    )


def _since(options: Options, wanted: ReadScope) -> datetime | None:
    return max((m for m in (options.start_position.at, wanted.since) if m is not None), default=None)


def _first(connection: StreamAccess, options: Options, wanted: ReadScope) -> Unread:
    """Where shards without a checkpoint begin. A filter may ask for records that arrive after now; the task drops what
    comes before. Raises SettingsError for a start position that is not in the past.
    """
    since = _since(options, wanted)
    return Unread(None if since is None else min(since, time_at_start(connection, options.start_position)))


def _begin(options: Options, shard: Shard, first: Unread) -> Begin | None:
    """Returns None if the shard has been read to its end."""
    if options.start_checkpoints is None:
        return first
    checkpoint = options.start_checkpoints.get(shard.shard_id)
    if checkpoint is None:
        return Unread()
    if checkpoint.is_shard_end:
        return None
    if not checkpoint.is_sequence_number:
        return Unread()
    return ReadTo(checkpoint.sequence_number, None, checkpoint.sub_sequence_number)


def _no_later_than(end: str, connection: StreamAccess, shard_id: str, begin: Begin) -> Begin:
    """Where to begin so that the record at the end comes: it may have arrived before the time to read from. What did,
    the task drops.
    """
    if not isinstance(begin, Unread) or begin.at is None:
        return begin
    last = first_record_at(connection, shard_id, ReadTo(end))
    return begin if last is None else Unread(min(begin.at, last.approximate_arrival_timestamp))


def _until(options: Options, wanted: ReadScope, now: datetime) -> datetime | None:
    """Returns a moment that is never later than now: everything that arrived by then can be read."""
    given = options.end_position.at if options.end_position is not None else None
    ends = [moment for moment in (given, wanted.until) if moment is not None]
    return min(*ends, now) if ends else None


def _is_empty(begin: Begin, end: Checkpoint) -> bool:
    if not isinstance(begin, ReadTo) or not end.is_sequence_number:
        return not end.is_sequence_number and not end.is_shard_end
    return Checkpoint(begin.sequence_number, begin.sub_sequence_number or 0) >= end
