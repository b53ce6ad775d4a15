"""Plans a batch read of several streams: for each stream, what a read of it alone would read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sublet.decisions.streams.chosen_streams import ChosenStream, FoundStreams
from sublet.errors import SettingsError
from sublet.ports import Streams
from sublet.protocol.stream_key import stream_key_of
from sublet.spark.options import Options
from sublet.spark.read.connection import StreamAccess, of_stream
from sublet.spark.read.found_streams import check_all_found
from sublet.spark.read.reading import ReadTask
from sublet.spark.source.batch_read_plan import ReadScope, plan_batch

AT_ONCE = 16
"""Streams that are planned at the same time. Each looks into several of its shards at once."""


def plan_several(
    streams: Streams, connect: Callable[[Options], StreamAccess], options: Options, wanted: ReadScope
) -> list[ReadTask]:
    """Returns the tasks in the order of streams and shard ids. Raises what `plan_batch` raises, and StreamNotFound for
    a stream that is named but does not exist.
    """
    found = streams.find()
    check_all_found(found, options)
    _check_named_streams(found, options)

    def plan(one: ChosenStream) -> list[ReadTask]:
        own = options.of_stream(one.stream, streams.arn(one.stream), one.start)
        return plan_batch(of_stream(connect(own), one.stream), own, wanted)

    chosen = sorted(found.streams, key=lambda each: each.stream)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [task for tasks in pool.map(plan, chosen) for task in tasks]


def _check_named_streams(found: FoundStreams, options: Options) -> None:
    """Raises SettingsError for a checkpoint of a stream that is not read."""
    streams = {each.stream for each in found.streams}
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
