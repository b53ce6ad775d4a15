"""A handler for a service that is never still: one line of the log for each batch."""

from __future__ import annotations

from sublet import Batch


def handle(batch: Batch) -> None:
    last = batch.records[-1]
    print(batch.shard_id, len(batch.records), last.sequence_number)
