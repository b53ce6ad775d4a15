"""Data to parsed values or reasons: a RecordBatch at a time, inside the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from sublet.runtimes.spark.pipeline.json_fit import reader_of

PARSED, REASON = "parsed", "reason"


def parse_batches(
    schema: Mapping[str, Any], kind: pa.DataType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Each batch with two columns more: `parsed`, of the Arrow type `kind`, and `reason`. One of the two is null in each row."""
    read = reader_of(schema)
    for batch in batches:
        read_rows = [read(data) for data in batch.column("data").to_pylist()]
        parsed = [None if type(row) is str else row for row in read_rows]
        reasons = [row if type(row) is str else None for row in read_rows]
        arrays = [*batch.columns, pa.array(parsed, kind), pa.array(reasons, pa.string())]
        yield pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, PARSED, REASON])
