"""Keeps the latest record of every partition key in a DynamoDB table, as a view of the stream that others can query.

Deliveries are at least once, and a key may move to another shard. One condition handles both: only a later record
replaces an earlier one. Kinesis' sequence numbers rise along a partition key, also from a shard to its children. They
have 56 digits, more than the 38 of DynamoDB's numbers, so positions are compared as text of equal length.

It needs a table with the key `key` (text), named by LATEST_TABLE.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import boto3
from botocore.exceptions import ClientError
from sublet import Batch, UserRecord

SEQUENCE_DIGITS = 129
"""Kinesis' limit for a sequence number."""

SUB_SEQUENCE_DIGITS = 10

CHECKPOINT_EVERY = 100
"""How many writes to make between two calls of `batch.checkpoint`. (sublet writes checkpoints at intervals in any
case.)
"""


def handle(batch: Batch) -> None:
    """Writes only each key's last record in the batch, in the batch's order, so that checkpoints are possible."""
    last = {record.partition_key: record for record in batch.records}
    written = 0
    for record in batch.records:
        if last[record.partition_key] is not record:
            continue  # this batch has a later one of the same key
        put_if_later(record)
        written += 1
        if written % CHECKPOINT_EVERY == 0:
            batch.checkpoint(record)  # every record up to this one is written, or has a later one still to come


def put_if_later(record: UserRecord) -> None:
    """Write the record, unless the table already has it or a later one of its key."""
    item = {
        "key": record.partition_key,
        "position": position(record),
        "data": record.data,
        "arrived": record.approximate_arrival_timestamp.isoformat(),
    }
    try:
        _table().put_item(
            Item=item,
            ConditionExpression="attribute_not_exists(#position) OR #position < :position",
            ExpressionAttributeNames={"#position": "position"},
            ExpressionAttributeValues={":position": item["position"]},
        )
    except ClientError as refused:
        if refused.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise  # the batch comes again


def position(record: UserRecord) -> str:
    """The record's position along its key, as text that sorts like the numbers."""
    return f"{record.sequence_number:0>{SEQUENCE_DIGITS}}:{record.sub_sequence_number:0>{SUB_SEQUENCE_DIGITS}}"


@cache
def _table() -> Any:
    return boto3.resource("dynamodb").Table(os.environ["LATEST_TABLE"])
