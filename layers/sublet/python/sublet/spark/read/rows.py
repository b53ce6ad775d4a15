"""Turns stream records into Spark's rows: Arrow RecordBatches, built column by column.

A row costs no Python object except its data. Partition keys become text once per aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import repeat
from operator import attrgetter, sub
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sublet.protocol.aggregation import AggregateColumns, WholeReason
from sublet.protocol.kpl_format import MAGIC
from sublet.protocol.records import StreamRecord
from sublet.spark.plan.strays import StrayFilter

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
"""Spark accepts a batch only if its schema equals this one, which it derives from SCHEMA_DDL."""


BATCH_BYTES = 2**20
"""How many bytes of stream records' data a RecordBatch has: they fit into a core's cache all the way to Spark."""

_data_of = attrgetter("data")
_key_of = attrgetter("partition_key")
_number_of = attrgetter("sequence_number")
_arrival_of = attrgetter("approximate_arrival_timestamp")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Rows:
    """Makes the rows of one shard's range, and counts what the rules dropped or kept. `delivered_whole`: as in
    Deaggregation."""

    stream: str
    shard_id: str
    strays: StrayFilter
    delivered_whole: int = 0

    def batches(
        self,
        records: Sequence[StreamRecord],
        after: tuple[str, int] | None = None,
        up_to: tuple[str, int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The user records of `records`, in order. No batch is empty, and no stream record is split.

        after, up_to  a stream record's sequence number with a sub-sequence number: of that record, only the user
                      records after the number of `after`, and up to that of `up_to`
        """
        for some, data in _portions(records):
            batch = self._batch(some) if data.may_have_aggregates() else self._plain_batch(some, data)
            if after is not None:
                batch = _cut(batch, after[0], lambda sub: sub > after[1])
            if up_to is not None:
                batch = _cut(batch, up_to[0], lambda sub: sub <= up_to[1])
            if batch.num_rows:
                yield batch

    def _plain_batch(self, records: Sequence[StreamRecord], data: _BinaryColumn) -> pa.RecordBatch:
        """Does the same as `_batch` in half the time, for records without aggregates, which are a row each."""
        rows = len(records)
        arrays = [
            data.array(),
            pa.array(list(map(_key_of, records)), pa.string()),
            pa.nulls(rows, pa.string()),
            _numbers(records),
            pa.array(np.zeros(rows, np.int64)),
            _arrivals(records),
            pa.repeat(pa.scalar(self.shard_id), rows),
            pa.repeat(pa.scalar(self.stream), rows),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)

    def _batch(self, records: Sequence[StreamRecord]) -> pa.RecordBatch:
        columns = _Columns()
        for record in records:
            expanded = self.strays.expanded(record)
            if expanded is None:
                columns.add_nothing()
            elif isinstance(expanded, WholeReason):
                self.delivered_whole += expanded is WholeReason.DAMAGED
                columns.add_plain(record)
            else:
                columns.add(expanded)
        return columns.batch(records, self.shard_id, self.stream)


def _portions(records: Sequence[StreamRecord]) -> Iterator[tuple[Sequence[StreamRecord], _BinaryColumn]]:
    """Cuts the records into portions of at most BATCH_BYTES of data. Each has at least one record, even if that is
    larger.
    """
    data = list(map(_data_of, records))
    ends = _ends(data)
    first = 0
    while first < len(records):
        fits = int(ends.searchsorted(ends[first] + BATCH_BYTES, "right")) - 1
        last = max(fits, first + 1)
        yield records[first:last], _BinaryColumn.of(data[first:last], ends[first : last + 1] - ends[first])
        first = last


@dataclass(slots=True)
class _Columns:
    """Columns that grow by one stream record at a time.

    counts, first_keys  for each stream record, the number of its user records, and where its partition keys begin in
                        `keys`
    explicit            explicit hash keys, by the first row of their stream record
    """

    data: list[bytes] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    key_indexes: list[int] = field(default_factory=list)
    explicit: dict[int, Sequence[str | None]] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)
    first_keys: list[int] = field(default_factory=list)

    def add(self, user_records: AggregateColumns) -> None:
        if user_records.explicit_hash_keys:
            self.explicit[len(self.data)] = user_records.explicit_hash_keys
        self.counts.append(len(user_records.data))
        self.first_keys.append(len(self.keys))
        self.data += user_records.data
        self.keys += user_records.partition_key_table
        self.key_indexes += user_records.partition_key_indexes

    def add_plain(self, record: StreamRecord) -> None:
        self.counts.append(1)
        self.first_keys.append(len(self.keys))
        self.data.append(record.data)
        self.keys.append(record.partition_key)
        self.key_indexes.append(0)

    def add_nothing(self) -> None:
        self.counts.append(0)
        self.first_keys.append(len(self.keys))

    def batch(self, records: Sequence[StreamRecord], shard_id: str, stream: str) -> pa.RecordBatch:
        """The columns as Arrow columns. What the user records of a stream record share is repeated for each."""
        rows = len(self.data)
        counts = np.array(self.counts, np.int64)
        record_of = np.repeat(np.arange(len(records)), counts)
        first_row_of = (np.cumsum(counts) - counts)[record_of]
        key_of = np.array(self.key_indexes, np.int64) + np.array(self.first_keys, np.int64)[record_of]
        arrays = [
            _BinaryColumn.of(self.data, _ends(self.data)).array(),
            pa.array(self.keys, pa.string()).take(pa.array(key_of)),
            self._explicit_hash_keys(),
            _numbers(records).take(pa.array(record_of)),
            pa.array(np.arange(rows) - first_row_of),
            _arrivals(records).take(pa.array(record_of)),
            pa.repeat(pa.scalar(shard_id), rows),
            pa.repeat(pa.scalar(stream), rows),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)

    def _explicit_hash_keys(self) -> pa.Array:
        rows = len(self.data)
        if not self.explicit:
            return pa.nulls(rows, pa.string())
        column: list[str | None] = [None] * rows
        for first, some in self.explicit.items():
            column[first : first + len(some)] = some
        return pa.array(column, pa.string())


def _numbers(records: Sequence[StreamRecord]) -> pa.Array:
    return pa.array(list(map(_number_of, records)), pa.string())


def _arrivals(records: Sequence[StreamRecord]) -> pa.Array:
    """Does the same as pa.array of the times, in a third of the time."""
    since = pa.array(list(map(sub, map(_arrival_of, records), repeat(_EPOCH))), pa.duration("us"))
    return since.view(pa.timestamp("us", tz="UTC"))


def _ends(values: Sequence[bytes]) -> np.ndarray:
    """Where each value begins and ends if they are joined."""
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=ends[1:])
    return ends


class _BinaryColumn(NamedTuple):
    """Arrow's layout of a column of bytes: value n is `joined[ends[n]:ends[n + 1]]`. Making it takes half the time of
    pa.array."""

    ends: np.ndarray
    joined: bytes

    @classmethod
    def of(cls, values: Sequence[bytes], ends: np.ndarray) -> _BinaryColumn:
        return cls(ends.astype(np.int32), b"".join(values))

    def may_have_aggregates(self) -> bool:
        """Whether a value begins as KPL's aggregates do. So few others share its first byte that each is looked at."""
        all_bytes = np.frombuffer(self.joined, np.uint8)
        starts = self.ends[:-1][np.diff(self.ends) >= len(MAGIC)]
        alike = starts[all_bytes[starts] == MAGIC[0]]
        return any(self.joined.startswith(MAGIC, start) for start in alike.tolist())

    def array(self) -> pa.Array:
        return pa.Array.from_buffers(
            pa.binary(), len(self.ends) - 1, [None, pa.py_buffer(self.ends), pa.py_buffer(self.joined)]
        )


def _cut(batch: pa.RecordBatch, sequence_number: str, keep: Callable[[np.ndarray], np.ndarray]) -> pa.RecordBatch:
    """Keeps some user records of one stream record, by their sub-sequence numbers."""
    other = np.array(batch.column("sequenceNumber").to_pylist()) != sequence_number
    return batch.filter(pa.array(other | keep(batch.column("subSequenceNumber").to_numpy())))
