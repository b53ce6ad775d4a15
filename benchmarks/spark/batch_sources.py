"""Streaming sources for measuring a micro-batch: sublet's own with one record per batch, and one that does nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType
from sublet.spark.option_table import parse_options
from sublet.spark.options import Options, Use
from sublet.spark.read.connection import StreamAccess, StreamsAccess
from sublet.spark.read.rows import SCHEMA_DDL
from sublet.spark.source.stream_read import StreamReader

from benchmarks.spark.memory import STREAM, of_one, trickle

RECORDS = 1_000
"""More records than a query reads."""


class TrickleSource(DataSource):
    """sublet's streaming reader on a stream in memory."""

    @classmethod
    def name(cls) -> str:
        return "benchmark_trickle"

    def schema(self) -> str:
        return SCHEMA_DDL

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: ARG002, N802 -- Spark's interface
        options = parse_options({"stream": STREAM, "maxRecordsPerTrigger": "1"}, Use.STREAM)
        return StreamReader(
            options,
            connect_driver=_connect_driver,
            connect_leases=lambda _: None,
            connect_keeper=lambda _: None,
            connect_task=_connect,
        )


def _connect_driver(options: Options) -> StreamsAccess:
    return of_one(_connect(options))


def _connect(options: Options) -> StreamAccess:  # noqa: ARG001 -- its stream does not exist
    return trickle(RECORDS)


class EmptySource(DataSource):
    """The least that Spark requires of a streaming source in Python."""

    @classmethod
    def name(cls) -> str:
        return "benchmark_empty"

    def schema(self) -> str:
        return SCHEMA_DDL

    def streamReader(self, schema: StructType) -> EmptyReader:  # noqa: ARG002, N802 -- Spark's interface
        return EmptyReader()


class EmptyReader(DataSourceStreamReader):
    """A batch without rows at every request."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"batch": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        return {"batch": start["batch"] + 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002
        return iter(())
