"""Batches of plain records, for tests that call a handler directly."""

from __future__ import annotations

from sublet.handler import Batch
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.testing.memory.clock import BEGINNING


def batch_of(*data: bytes, shard_id: str = "shardId-000000000000") -> Batch:
    """One shard's records 1, 2, 3, ...; its checkpoint does nothing."""
    fetched = [StreamRecord(str(number), text, "key", BEGINNING) for number, text in enumerate(data, 1)]
    records = tuple(UserRecord(record.data, record.partition_key, 0, record) for record in fetched)
    return Batch("events", shard_id, records, 0, lambda _: True)
