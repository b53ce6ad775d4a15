"""The source as Spark's batch reader, with filters on shardId, stream and approximateArrivalTimestamp pushed down.

Spark pushes filters down only while `spark.sql.python.filterPushdown.enabled` is on; while it is off, Spark fails
every read of a reader that has the method. So the method exists only in the worker process that pushes filters, which
Spark 4.0 does not have.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from sublet.spark.options import Options
from sublet.spark.plain_errors import plainly
from sublet.spark.source.batch_read_plan import ReadScope, plan_batch
from sublet.spark.source.stream_read import Connect, ConnectStreams, TaskPartition, partitions

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class BatchReader(DataSourceReader):
    """Plans once per scan, on the driver."""

    def __init__(self, options: Options, connect_driver: ConnectStreams, connect_task: Connect) -> None:
        self._options = options
        self._connect_driver = connect_driver
        self._connect_task = connect_task
        self._wanted = ReadScope()
        if _PUSHDOWN_WORKER in sys.modules:
            self.pushFilters = self._push_filters

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        access = self._connect_driver(self._options)
        return partitions(plan_batch(access, self._options, self._wanted), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields no rows for a partition of Spark's own class, which Spark makes for a scan without partitions."""
        if not isinstance(partition, TaskPartition):
            return iter(())
        return partition.read(self._options, self._connect_task)

    def _push_filters(self, filters: list[Any]) -> Iterable[Any]:
        """Returns the filters that Spark must apply itself: all but those on shardId and stream."""
        from sublet.spark.source.filter_pushdown import narrow  # noqa: PLC0415 - Spark 4.0 has no filters to import

        for each in filters:
            narrower = narrow(self._wanted, each)
            self._wanted = narrower or self._wanted
            if narrower is None or each.attribute not in (("shardId",), ("stream",)):
                yield each
