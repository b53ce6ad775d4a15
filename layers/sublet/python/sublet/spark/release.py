"""Makes up for what this release of PySpark lacks of 4.2's data source API. It tests PySpark's features, not its
version.

Everything else is written for 4.2. docs/spark.md has a table of what an earlier release cannot do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, Row, datasource
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from sublet.errors import SettingsError
from sublet.spark.plain_errors import plainly
from sublet.system.python_log import PythonLog

HAS_READ_LIMITS = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
"""From 4.2 on, Spark tells a source where a batch begins, how large it may be, and that a run ends with what is
available.
"""

if HAS_READ_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:  # type: ignore[no-redef] # 4.2's names, which only our own reader sees here
        pass

    @dataclass(frozen=True)
    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        pass

    @dataclass(frozen=True)
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        max_rows: int

    @dataclass(frozen=True)
    class ReadMaxBytes(ReadLimit):  # type: ignore[no-redef]
        max_bytes: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


__all__ = [
    "HAS_READ_LIMITS",
    "PositionedReader",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "StreamArrowWriter",
    "SupportsTriggerAvailableNow",
    "arrow_batches",
    "arrow_schema",
    "arrow_type",
    "for_this_release",
    "with_column",
]

StreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)
"""From 4.1 on, Spark passes Arrow batches to a stream's writer. 4.0 passes rows: see `arrow_batches`."""

ROWS_AT_ONCE = 10_000

BYTES_AT_ONCE = 8 * 2**20
"""About the most data of the rows that are converted at once: a row may have 10 MB."""

ONE_BATCH_ALONE = (
    "this Spark reads only one batch with trigger(availableNow=True) or trigger(once=True), and more records are "
    "available. If that is this query's trigger, leave it out, give the source the option availableNow, and end with "
    "sublet.spark.drain(query). In a declarative pipeline: run it again"
)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Spark's schema as Arrow's, with timestamps in UTC. 4.2 renamed the parameter for that."""
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:
        return to_arrow_schema(schema)


def arrow_type(kind: DataType) -> pa.DataType:
    return arrow_schema(StructType([StructField("it", kind)])).field(0).type


def with_column(
    rows: DataFrame, name: str, kind: DataType, make: Callable[[pa.Array], Iterator[pa.Array]], of: str
) -> DataFrame:
    """The rows with one more column, computed from the column `of`, once per row however it is used. Before 4.1 no
    expression goes from Arrow to Arrow, so all columns pass through Python.

    make  returns as many values as it gets, in one or several arrays
    """
    if hasattr(F, "arrow_udf"):

        def made(arrays: Iterator[pa.Array]) -> Iterator[pa.Array]:
            for array in arrays:
                yield from make(array)

        return rows.withColumn(name, F.arrow_udf(made, kind).asNondeterministic()(F.col(of)))

    def widened(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            begins = 0
            for array in make(batch.column(of)):
                columns = [*batch.slice(begins, len(array)).columns, array]
                begins += len(array)
                yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, name])

    return rows.mapInArrow(widened, StructType([*rows.schema.fields, StructField(name, kind)]))


def arrow_batches(given: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """Passes RecordBatches on, and converts rows to RecordBatches."""
    rest = iter(given)
    for one in rest:
        if isinstance(one, pa.RecordBatch):
            yield one
        else:
            yield pa.RecordBatch.from_pylist([row.asDict() for row in _portion(chain([one], rest))])


def _portion(rows: Iterator[Row]) -> Iterator[Row]:
    """The first rows, up to a number and a size."""
    left = BYTES_AT_ONCE
    for row in islice(rows, ROWS_AT_ONCE):
        yield row
        left -= sum(len(value) for value in row if isinstance(value, (bytes, bytearray, str)))
        if left <= 0:
            return


def for_this_release(reader: Any) -> DataSourceStreamReader:
    """Adapts a reader written for 4.2 to this release."""
    return reader if HAS_READ_LIMITS else PositionedReader(reader)


class PositionedReader(DataSourceStreamReader):
    """A reader for 4.2 on 4.0 and 4.1, where `latestOffset` gets no arguments: the position follows from Spark's
    earlier calls.

    On a restart Spark calls partitions(x, x) before anything else, with x the last offset of its log, committed or
    not. It repeats the batch up to x, if it has to, before it asks for the next one. A new query begins at the
    initial offset. From then on each answer is where the next batch begins. The limit is the options' own, and the
    lag is part of the offset: Spark shows that as the source's latestOffset, which is where 4.2 shows lag.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._position: dict[str, Any] | None = None
        self._has_answered = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._reader.initialOffset()  # type: ignore[no-any-return]

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        before = self._position if self._position is not None else self.initialOffset()
        after = self._reader.latestOffset(before, self._reader.getDefaultReadLimit())
        if not self._has_answered and self._reader.leaves_more():
            PythonLog("sublet.spark").warning(ONE_BATCH_ALONE)
        self._has_answered = True
        self._position = before if after is before else {**after, **self._reader.reportLatestOffset()}
        return self._position

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raises SettingsError if Spark asked for an offset before it told the position."""
        if start != end:
            return self._reader.partitions(start, end)  # type: ignore[no-any-return]
        if self._has_answered and end != self._position:
            raise SettingsError(
                "spark.sql.streaming.triggerAvailableNowWrapper.enabled",
                "true",
                "false: with it Spark asks for the next offset before it says where the query is. To read what is "
                "available and end, use the option availableNow, no trigger, and sublet.spark.drain(query)",
            )
        self._position = end
        return []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reader.read(partition)  # type: ignore[no-any-return]

    def stop(self) -> None:
        self._reader.stop()


class Draining(Protocol):
    """A StreamingQuery, classic or Connect's."""

    def processAllAvailable(self) -> None: ...  # noqa: N802

    def stop(self) -> None: ...


def drain(query: Draining) -> None:
    """Wait until the query has read what was available when it began, and end it. This is 4.2's AvailableNow on any
    release.

    The source needs the option `availableNow`, and the query no trigger or `processingTime`. Without the option, a
    query of a busy stream never ends. Raises the query's failure; what was committed stays committed.
    """
    try:
        query.processAllAvailable()
    finally:
        query.stop()
