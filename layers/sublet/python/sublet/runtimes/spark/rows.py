"""Stream records as Spark's rows: one Arrow RecordBatch for a page, built column by column.

No Python object is made for a row, only for its data and its partition key's text, once for each aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sublet.protocol.aggregation import AggregateColumns, OutOfRange, Whole, aggregate_columns
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import HashKeyRange

SCHEMA_DDL = (
    "data binary, partitionKey string, explicitHashKey string, sequenceNumber string, subSequenceNumber bigint, "
    "approximateArrivalTimestamp timestamp, shardId string, stream string"
)
ARROW_SCHEMA = pa.schema(
    [
        ("data", pa.binary()),
        ("partitionKey", pa.string()),
        ("explicitHashKey", pa.string()),
        ("sequenceNumber", pa.string()),
        ("subSequenceNumber", pa.int64()),
        ("approximateArrivalTimestamp", pa.timestamp("us", tz="UTC")),
        ("shardId", pa.string()),
        ("stream", pa.string()),
    ]
)
"""Spark takes a batch only if its schema equals this one, which it makes of SCHEMA_DDL."""


@dataclass(slots=True)
class Rows:
    """Makes the rows of one shard's range, and counts what KCL's rules did on the way.

    dropped_out_of_range, delivered_whole   as in Deaggregation
    """

    stream: str
    shard_id: str
    hash_key_range: HashKeyRange | None
    dropped_out_of_range: int = 0
    delivered_whole: int = 0

    def batch(
        self,
        records: Sequence[StreamRecord],
        after: tuple[str, int] | None = None,
        up_to: tuple[str, int] | None = None,
    ) -> pa.RecordBatch | None:
        """The user records of `records`, in order; None if there are none.

        after, up_to   a stream record's sequence number and a sub-sequence number: of that record alone, only the user
        records after the one, and up to the other
        """
        columns = _Columns()
        for record in records:
            expanded = aggregate_columns(record.data, self.hash_key_range)
            if isinstance(expanded, OutOfRange):
                self.dropped_out_of_range += expanded.user_records
                columns.add_nothing()
            elif isinstance(expanded, Whole):
                self.delivered_whole += expanded is Whole.DAMAGED
                columns.add_plain(record)
            else:
                columns.add(expanded)
        batch = columns.batch(records, self.shard_id, self.stream)
        if after is not None:
            batch = _cut(batch, after[0], lambda sub: sub > after[1])
        if up_to is not None:
            batch = _cut(batch, up_to[0], lambda sub: sub <= up_to[1])
        return batch if batch.num_rows else None


@dataclass(slots=True)
class _Columns:
    """Columns that grow by a stream record at a time. `counts`: user records of each."""

    data: list[bytes] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    key_indexes: list[int] = field(default_factory=list)
    explicit: list[str | None] = field(default_factory=list)
    has_explicit: bool = False
    counts: list[int] = field(default_factory=list)

    def add(self, user_records: AggregateColumns) -> None:
        first_key, count = len(self.keys), len(user_records.data)
        self.data += user_records.data
        self.keys += user_records.partition_key_table
        indexes = user_records.partition_key_indexes
        self.key_indexes += map(first_key.__add__, indexes) if first_key else indexes
        self.has_explicit = self.has_explicit or bool(user_records.explicit_hash_keys)
        self.explicit += user_records.explicit_hash_keys or [None] * count
        self.counts.append(count)

    def add_plain(self, record: StreamRecord) -> None:
        self.key_indexes.append(len(self.keys))
        self.keys.append(record.partition_key)
        self.data.append(record.data)
        self.explicit.append(None)
        self.counts.append(1)

    def add_nothing(self) -> None:
        self.counts.append(0)

    def batch(self, records: Sequence[StreamRecord], shard_id: str, stream: str) -> pa.RecordBatch:
        """The columns as Arrow's; what a stream record's user records share is repeated for each of them."""
        rows = len(self.data)
        counts = np.array(self.counts, dtype=np.int64)
        record_of = pa.array(np.repeat(np.arange(len(records)), counts))
        first_row_of = np.repeat(np.cumsum(counts) - counts, counts)
        arrivals = [record.approximate_arrival_timestamp for record in records]
        explicit = pa.array(self.explicit, pa.string()) if self.has_explicit else pa.nulls(rows, pa.string())
        arrays = [
            pa.array(self.data, pa.binary()),
            pa.array(self.keys, pa.string()).take(pa.array(self.key_indexes, pa.int64())),
            explicit,
            pa.array([record.sequence_number for record in records], pa.string()).take(record_of),
            pa.array(np.arange(rows) - first_row_of),
            pa.array(arrivals, pa.timestamp("us", tz="UTC")).take(record_of),
            pa.repeat(pa.scalar(shard_id), rows),
            pa.repeat(pa.scalar(stream), rows),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def _cut(
    batch: pa.RecordBatch, sequence_number: str, keep: Callable[[np.ndarray], np.ndarray]
) -> pa.RecordBatch:
    """Of one stream record's user records keep some, by their sub-sequence numbers."""
    other = np.array(batch.column("sequenceNumber").to_pylist()) != sequence_number
    return batch.filter(pa.array(other | keep(batch.column("subSequenceNumber").to_numpy())))
