"""The RecordWriter port over a stream in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sublet.errors import RecordRefused
from sublet.ports import Clock
from sublet.protocol.records import NewRecord, PutRefused
from sublet.protocol.stream_info import MAX_RECORD_KIB, PutRecord, RecordDistribution
from sublet.testing.memory.stream import MemoryStream

RECORDS_PER_SECOND, BYTES_PER_SECOND = 1_000, 2**20
"""Kinesis' limits for a shard."""

_SECOND = timedelta(seconds=1)

TOO_MUCH = PutRefused("ProvisionedThroughputExceededException", "Rate exceeded for shard", passes=True)


class MemoryRecordWriter:
    """Safe for threads. `throttled`: refuse what exceeds a shard's limits, within each second of the clock.
    `max_record_kib`: the stream's limit at the moment."""

    def __init__(
        self,
        stream: MemoryStream,
        clock: Clock,
        *,
        throttled: bool = False,
        max_record_kib: Callable[[], int] = lambda: MAX_RECORD_KIB,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._throttled = throttled
        self._max_record_kib = max_record_kib
        self._lock = threading.Lock()
        self._used: dict[str, tuple[datetime, int, int]] = {}

    def put(self, records: Sequence[NewRecord]) -> list[PutRecord | PutRefused]:
        is_auto = self._stream.distribution is RecordDistribution.AUTO
        if not is_auto and any(record.partition_key is None for record in records):
            raise RecordRefused("Kinesis refuses a call with a record without a partition key")
        with self._lock:
            return [self._put(record) for record in records]

    def _put(self, record: NewRecord) -> PutRecord | PutRefused:
        most = self._max_record_kib()
        if record.size > most * 1024:
            return PutRefused(
                "InvalidArgumentException",
                f"it has {record.size:,} bytes: the stream's MaxRecordSizeInKiB is {most:,}",
                passes=False,
            )
        explicit = None if record.explicit_hash_key is None else int(record.explicit_hash_key)
        if self._throttled and not self._may_take(record, explicit):
            return TOO_MUCH
        return self._stream.put_record(record.partition_key, record.data, explicit)

    def _may_take(self, record: NewRecord, explicit: int | None) -> bool:
        shard_id, now = self._stream.shard_taking(record.partition_key, explicit), self._clock.now()
        since, count, size = self._used.get(shard_id, (now, 0, 0))
        if now - since >= _SECOND:
            since, count, size = now, 0, 0
        takes = count < RECORDS_PER_SECOND and (size + record.size <= BYTES_PER_SECOND or not size)
        if takes:
            self._used[shard_id] = since, count + 1, size + record.size
        return takes
