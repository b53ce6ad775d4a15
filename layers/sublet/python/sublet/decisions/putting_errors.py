"""The errors that say why a producer gave up a record."""

from __future__ import annotations

from datetime import timedelta

from sublet.decisions.outbox import Entry, QueuedRecord
from sublet.errors import RecordRefused, RecordTimedOut
from sublet.protocol.records import PutRefused

TOO_MUCH = "ProvisionedThroughputExceededException"
"""Kinesis: a shard takes 1 MiB and 1,000 records a second."""

KEYLESS_REFUSED = (
    "it has no partition key: the stream accepts such a record only if it distributes records itself (an on-demand stream's "
    "RecordDistributionStrategy AUTO)"
)

NO_LISTING = "the stream's shards could not be listed for {}: Kinesis does not answer"

NOT_LISTED = "it is in shard {}, which no listing of the stream's shards names, so consumers may have dropped it; put it again"


def refused_for_good(entry: Entry, why: PutRefused) -> RecordRefused:
    first = entry.user_records[0]
    what = (
        f"an aggregate of {len(entry.user_records)} records"
        if entry.is_aggregate
        else f"the record {_keyed(first)} and {len(first.data)} bytes of data"
    )
    return RecordRefused(f"Kinesis refuses {what} ({why.code}: {why.reason})")


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
