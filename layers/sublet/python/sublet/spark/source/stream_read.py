"""The source as Spark's streaming reader.

Spark keeps one reader in a driver-side process of the query, and pickles another for its executors. They share no
state, so `read` knows only the options and its partition.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from sublet.ports import LeaseTable, SightingStore
from sublet.spark.keeper.keeper_thread import KeeperThread
from sublet.spark.options import Options
from sublet.spark.plain_errors import plain_items, plainly
from sublet.spark.plan.offsets import damaged_offset, offset_from_json, offset_to_json
from sublet.spark.plan.partitions import partitions_of
from sublet.spark.read.connection import StreamAccess, StreamsAccess
from sublet.spark.read.counting import NO_LIMIT, BatchShare
from sublet.spark.read.reading import ReadTask, access_for, weights_of
from sublet.spark.read.side_by_side import read_side_by_side
from sublet.spark.release import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from sublet.spark.source.driver import QueryDriver
from sublet.spark.source.leased_shards import LeasedShards
from sublet.spark.source.portion import Portion
from sublet.spark.source.whole_streams import WholeStreams

Connect = Callable[[Options], StreamAccess]
ConnectStreams = Callable[[Options], StreamsAccess]
ConnectLeases = Callable[[Options], tuple[LeaseTable, SightingStore] | None]
ConnectKeeper = Callable[[Options], KeeperThread | None]

BY_SPAN = ReadMaxRows(sys.maxsize)
"""A placeholder, because Spark has no read limit by arrival time. Spark passes it back, and our own limit is then
applied.
"""


class TaskPartition(InputPartition):
    """What one of Spark's tasks reads, on its way to an executor."""

    def __init__(self, tasks: Sequence[ReadTask]) -> None:
        super().__init__(tasks)
        self.tasks = tasks

    def read(self, options: Options, connect: Connect) -> Iterator[pa.RecordBatch]:
        return plain_items(read_side_by_side(self.tasks, lambda task: access_for(task, options, connect)))


def partitions(tasks: Sequence[ReadTask], options: Options) -> Sequence[TaskPartition]:
    """Divides the tasks among as many of Spark's as the options say."""
    parts = partitions_of(weights_of(tasks), options.max_partitions)
    return [TaskPartition([tasks[place] for place in places]) for places in parts]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are JSON objects; see `offsets`."""

    def __init__(
        self,
        options: Options,
        connect_driver: ConnectStreams,
        connect_leases: ConnectLeases,
        connect_keeper: ConnectKeeper,
        connect_task: Connect,
    ) -> None:
        self._options = options
        self._connect_leases = connect_leases
        self._connect_keeper = connect_keeper
        self._connect_driver = connect_driver
        self._connect_task = connect_task
        self._driver: QueryDriver | None = None
        self._keeper: KeeperThread | None = None
        self._reads_what_is_there = False

    @plainly
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return offset_to_json(self._query().initial_offset())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_records_per_trigger is not None:
            return ReadMaxRows(self._options.max_records_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable() if self._options.max_span_per_trigger is None else BY_SPAN

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Returns where the next batch ends, or `start` if there is nothing to read; Spark then runs no batch."""
        before, query = offset_from_json(start), self._query()
        if (self._options.available_now or self._reads_what_is_there) and not query.has_targets:
            query.set_targets(before)
        after = query.latest_offset(before, self._share(limit))
        return start if after is before else offset_to_json(after)

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Spark next asks for the first offset, and only then says where the query is. The targets wait for that, so
        that idle shards need not be walked from their start."""
        self._reads_what_is_there = True

    @plainly
    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """For `query.lastProgress`: how far behind their tips the shards' last planned ends were, in milliseconds, the
        batch's bytes, as far as they were counted, and how many of the driver's calls were throttled. Of several
        streams, each shard is named by stream and shard, as its lease is.
        """
        query = self._query()
        millis = {shard_id: round(lag.total_seconds() * 1000) for shard_id, lag in sorted(query.lag.items())}
        return {
            "stream": self._options.stream,
            "millisBehindLatest": millis,
            "maxMillisBehindLatest": max(millis.values(), default=0),
            "bytes": dict(sorted(query.counted_bytes.items())),
            "throttledCalls": dict(sorted(query.throttled.items())),
        }

    def leaves_more(self) -> bool:
        """True if the last planned batch ends well before what is available, and the query was not asked to read all
        of it."""
        return self._query().leaves_more and not self._options.available_now

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return partitions(self._query().tasks(offset_from_json(start), offset_from_json(end)), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPartition)
        return partition.read(self._options, self._connect_task)

    @plainly
    def stop(self) -> None:
        """Spark's last call, however the query ends, as long as this process lives. Raises OffsetMalformed instead of
        PySpark's own error for an offset that is not JSON, which we never see."""
        if self._keeper is not None:
            self._keeper.stop()
        why = sys.exception()
        if isinstance(why, json.JSONDecodeError):
            raise damaged_offset(why.doc, why)

    def _query(self) -> QueryDriver:
        if self._driver is None:
            access = self._connect_driver(self._options)
            self._driver = QueryDriver(access, self._options, self._portion(access))
        return self._driver

    def _portion(self, access: StreamsAccess) -> Portion:
        self._keeper = self._connect_keeper(self._options)
        if self._keeper is not None:
            return LeasedShards(self._keeper, access, self._options)
        return WholeStreams(*(self._connect_leases(self._options) or (None, None)))

    def _share(self, limit: ReadLimit) -> BatchShare:
        """ReadAllAvailable (Trigger.Once) overrides our own limits, as Spark's contract says."""
        if limit == BY_SPAN:
            return BatchShare(span=self._options.max_span_per_trigger)
        if isinstance(limit, ReadMaxRows):
            return BatchShare(records=limit.max_rows)
        return BatchShare(bytes=limit.max_bytes) if isinstance(limit, ReadMaxBytes) else NO_LIMIT
