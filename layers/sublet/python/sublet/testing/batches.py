"""A single batch, for a test that calls its handler itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from sublet.handler import Batch, CheckpointReply
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.testing.memory.clock import BEGINNING

Given = bytes | tuple[str | None, bytes]
"""A record's data, or its partition key and data. Data alone gets a key of its own: key-0, key-1, ... None: put without
a key.
"""

SHARD = "shardId-000000000000"
STREAM = "memory"


def arn_of(stream: str) -> str:
    """The ARN of a stream in memory, since a handler may use its region and account."""
    return f"arn:aws:kinesis:us-east-1:123456789012:stream/{stream}"


class _Checkpoints:
    """A batch's `checkpoint`: records its calls, and refuses what the engine refuses."""

    def __init__(self, records: Sequence[UserRecord]) -> None:
        self.of = records
        self.made: list[UserRecord] = []
        self.prepared: list[tuple[UserRecord, bytes]] = []

    def at(self, to: Checkpoint) -> CheckpointReply:
        self.made.extend(record for record in self.of if record.checkpoint == to)
        return CheckpointReply.WRITTEN

    def prepare(self, record: UserRecord, state: bytes) -> bool:
        self.prepared.append((record, state))
        return True

    def __call__(self, record: UserRecord) -> bool:
        if not any(record is known for known in self.of):
            raise ValueError("batch.checkpoint(record): the record is not one of this batch's records")
        self.made.append(record)
        return True


def batch(
    records: Iterable[Given | UserRecord],
    *,
    shard_id: str = SHARD,
    attempt: int = 1,
    millis_behind_latest: int = 0,
    remaining: timedelta = timedelta(minutes=14),
    is_redrive: bool = False,
) -> Batch:
    """A batch of one shard of the stream `memory`: sequence numbers 1, 2, 3, ..., each record a second after the one
    before.
    """
    made = tuple(
        given if isinstance(given, UserRecord) else _record(place, given) for place, given in enumerate(records)
    )
    if not made:
        raise ValueError("a batch has at least one record")
    left, checkpoints = remaining // timedelta(milliseconds=1), _Checkpoints(made)
    return Batch(
        STREAM,
        shard_id,
        made,
        millis_behind_latest,
        checkpoints,
        arn_of(STREAM),
        attempt,
        lambda: left,
        checkpoints.prepare,
        checkpoints.at,
        is_redrive,
    )


def checkpointed(batch: Batch) -> list[UserRecord]:
    """The records that `batch.checkpoint` was called with, in the order of the calls, for a batch made by `batch()`.
    Raises TypeError.
    """
    if not isinstance(batch.checkpoint, _Checkpoints):
        raise TypeError("checkpointed(batch): the batch was not made by sublet.testing.batch")
    return batch.checkpoint.made


def keyed(given: Iterable[Given]) -> list[tuple[str | None, bytes]]:
    """(partition key, data) of each; the key is None for a record without one. Raises TypeError."""
    return [_keyed(place, record) for place, record in enumerate(given)]


def _keyed(place: int, given: Given) -> tuple[str | None, bytes]:
    match given:
        case bytes():
            return f"key-{place}", given
        case (str() | None, bytes()):
            return given
    raise TypeError(
        f"record {place} is of type {type(given).__name__}: give bytes, or a tuple of a str (or None) and bytes"
    )


def _record(place: int, given: Given) -> UserRecord:
    ((key, data),) = keyed([given]) if isinstance(given, tuple) else [(f"key-{place}", given)]
    arrived = BEGINNING + timedelta(seconds=place)
    return UserRecord(data, key, 0, StreamRecord(str(place + 1), data, key, arrived))
