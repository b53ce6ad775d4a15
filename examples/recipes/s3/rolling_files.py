"""Writes each shard's records to S3 in files of a chosen size: gzipped lines, each record in exactly one file.

Before a file is written, its end is written down in the lease's row (`prepare_checkpoint`). Its name and content follow
from where it begins, which is the checkpoint, and where it ends:

* A crash before the checkpoint: the next owner is told the end, reads the same records, and writes the same file again.
* A zombie, whose lease another has by now: it cannot prepare a file any more. If it had prepared one, its successor
  writes that same file, so whichever of the two writes last changes nothing.

Run it with `checkpointing=manual`. A file is written when it has ROLL_BYTES (before compression), when the shard ends
or is released, and at the end of each `window`: so `window=5m` bounds how old a record is before it is in S3. What has
not been written yet is in memory, ROLL_BYTES for each lease. The bucket is OUT_BUCKET.
"""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import boto3
from sublet import Batch, Checkpoint, PendingCheckpoint, UserRecord

ROLL_BYTES = int(os.environ.get("ROLL_BYTES", "67108864"))


@dataclass
class OpenFile:
    """last       the last record in a file; a record of a repeated call is not taken twice
    ends_at    where it must end, once that is in the lease's row
    """

    last: Checkpoint
    ends_at: Checkpoint | None = None
    records: list[UserRecord] = field(default_factory=list)
    size: int = 0

    def add(self, record: UserRecord) -> None:
        self.records.append(record)
        self.last = record.checkpoint
        self.size += len(record.data) + 1

    def is_complete(self) -> bool:
        return self.size >= ROLL_BYTES if self.ends_at is None else self.last == self.ends_at

    def key(self, shard_id: str) -> str:
        first = self.records[0]
        return f"date={first.approximate_arrival_timestamp:%Y-%m-%d}/{shard_id}/{first.checkpoint}-{self.last}.gz"


class RollingFiles:
    def __init__(self) -> None:
        self.files: dict[str, OpenFile] = {}
        self.batches: dict[str, Batch] = {}

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None) -> None:
        ends_at = pending.checkpoint if pending and pending.checkpoint > checkpoint else None
        self.files[shard_id] = OpenFile(checkpoint, ends_at)

    def handle(self, batch: Batch) -> None:
        """Takes the records. Only `batch.checkpoint` says that some are done, when their file is in S3."""
        self.batches[batch.shard_id] = batch
        for record in batch.records:
            file = self.files[batch.shard_id]
            if record.checkpoint > file.last:
                file.add(record)
            if file.is_complete():  # or it was, and S3 did not take it
                self.write(batch.shard_id)

    def lease_releasing(self, shard_id: str) -> None:
        """Writes what there is; but a prepared file is not cut short: the next owner writes all of it."""
        if self.files[shard_id].ends_at is None:
            self.write(shard_id)

    shard_ended = lease_releasing

    def lease_lost(self, shard_id: str) -> None:
        self.files.pop(shard_id, None)

    def write(self, shard_id: str) -> None:
        file = self.files[shard_id]
        if not file.records:
            return
        batch, last = self.batches[shard_id], file.records[-1]
        if file.ends_at is None and not batch.prepare_checkpoint(last, file.key(shard_id).encode()):
            raise ConnectionError("the lease is lost, or its table out of reach: nothing is written")
        file.ends_at = file.last
        lines = b"".join(record.data + b"\n" for record in file.records)
        s3().put_object(Bucket=os.environ["OUT_BUCKET"], Key=file.key(shard_id), Body=gzip.compress(lines, mtime=0))
        if not batch.checkpoint(last):
            raise ConnectionError("the file is written, but not its checkpoint: it will be written again")
        self.files[shard_id] = OpenFile(file.last)


@cache
def s3() -> Any:
    return boto3.client("s3")


files = RollingFiles()
