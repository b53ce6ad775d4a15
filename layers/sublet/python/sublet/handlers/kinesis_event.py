"""A batch as the event of Lambda's event source mapping, field for field.

Fields that AWS does not have are added: an event source mapping does not expand KPL aggregates.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Sequence
from typing import Any

from sublet.protocol.records import UserRecord
from sublet.protocol.stream_identity import StreamArn

SUB_SEQUENCE_NUMBER = "subSequenceNumber"
EXPLICIT_HASH_KEY = "explicitHashKey"
"""Our fields in `kinesis`, for a user record of an aggregate. The second is there only if the producer set an explicit
hash key.
"""


def stream_arn_of(stream: str, stream_arn: str | None) -> str:
    """The stream's ARN. Without `stream_arn`, unknown parts are empty."""
    return stream_arn or f"arn:aws:kinesis:::stream/{stream}"


def kinesis_event(
    shard_id: str, records: Sequence[UserRecord], stream_arn: str, invoke_identity_arn: str
) -> dict[str, Any]:
    """The event of one shard's records. Its dictionaries are new, so the caller may change them."""
    region = StreamArn.parse(stream_arn).region
    return {
        "Records": [
            {
                "kinesis": _kinesis(record),
                "eventSource": "aws:kinesis",
                "eventVersion": "1.0",
                "eventID": f"{shard_id}:{identifier(record)}",
                "eventName": "aws:kinesis:record",
                "invokeIdentityArn": invoke_identity_arn,
                "awsRegion": region,
                "eventSourceARN": stream_arn,
            }
            for record in records
        ]
    }


def identifier(record: UserRecord) -> str:
    """The record's name in its shard: the sequence number, with a suffix for user records of an aggregate, which share
    it.
    """
    number = record.stream_record.sequence_number
    return f"{number}:{record.sub_sequence_number}" if record.is_aggregated else number


def _kinesis(record: UserRecord) -> dict[str, Any]:
    stream_record = record.stream_record
    fields: dict[str, Any] = {
        "kinesisSchemaVersion": "1.0",
        "partitionKey": record.partition_key,
        "sequenceNumber": stream_record.sequence_number,
        "data": b2a_base64(record.data, newline=False).decode("ascii"),
        "approximateArrivalTimestamp": stream_record.approximate_arrival_timestamp.timestamp(),
    }
    if record.is_aggregated:
        fields[SUB_SEQUENCE_NUMBER] = record.sub_sequence_number
        if record.explicit_hash_key is not None:
            fields[EXPLICIT_HASH_KEY] = record.explicit_hash_key
    return fields
