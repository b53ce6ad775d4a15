"""sublet's handler for `rolling`."""

from __future__ import annotations

from sublet import Batch

from benchmarks.consumers.rolling import Note

NOTE = Note()


def handle(batch: Batch) -> None:
    NOTE.add(record.data for record in batch.records)
