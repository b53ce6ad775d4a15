"""The errors that say why a producer gave up a record."""

from __future__ import annotations

from datetime import timedelta

from sublet.decisions.putting.outbox import OutboxEntry, QueuedRecord
from sublet.errors import RecordRefused, RecordTimedOut
from sublet.protocol.records import PutRefused

TOO_MUCH = "ProvisionedThroughputExceededException"
"""Kinesis: a shard takes 1 MiB and 1,000 records a second."""

KEYLESS_REFUSED = (
    "it has no partition key: the stream accepts such a record only if it distributes records itself (an on-demand "
    "stream's RecordDistributionStrategy AUTO)"
)

NO_LISTING = "the stream's shards could not be listed for {}: Kinesis does not answer"

NOT_LISTED = (
    "it is in shard {}, which no listing of the stream's shards names, so consumers may have dropped it; put it again"
)


def refused_for_good(entry: OutboxEntry, why: PutRefused) -> RecordRefused:
    return RecordRefused(f"Kinesis refuses {_named(entry)} ({why.code}: {why.reason})")


def refused_alone(entry: OutboxEntry, why: RecordRefused) -> RecordRefused:
    """For a record whose call was refused though it had no other."""
    return RecordRefused(f"{_named(entry)} is refused: {why}")


def refusal_of(problem: Exception) -> PutRefused:
    """What an error of a whole call says of each of its records, if waiting may help."""
    return PutRefused(type(problem).__name__, str(problem), passes=True)


def _named(entry: OutboxEntry) -> str:
    first = entry.user_records[0]
    return f"the record {_keyed(first)} and {len(first.data)} bytes of data"


def _keyed(record: QueuedRecord) -> str:
    if record.partition_key is None:
        return "without a partitionKey"
    return f"with partitionKey {record.partition_key!r:.100}"


def timed_out(why: PutRefused, patience: timedelta) -> RecordTimedOut:
    advice = (
        "the stream needs more shards, or keys that spread over them"
        if why.code == TOO_MUCH
        else "Kinesis is failing; a longer `patience` waits longer"
    )
    return RecordTimedOut(f"refused for {patience}, at last with {why.code} ({why.reason}): {advice}")
