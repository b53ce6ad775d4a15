"""A handler for a long-lived service: one log line per batch."""

from __future__ import annotations

from sublet import Batch


def handle(batch: Batch) -> None:
    last = batch.records[-1]
    print(batch.shard_id, len(batch.records), last.sequence_number)
