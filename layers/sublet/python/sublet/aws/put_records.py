"""PutRecords over boto3: which records were taken, and into which shard, as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sublet.aws.faults import is_transient
from sublet.aws.kinesis_errors import named_stream_errors
from sublet.protocol.records import NewRecord
from sublet.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


class KinesisWriter:
    """Puts records into one stream. Safe for threads."""

    def __init__(self, client: KinesisClient, settings: Settings) -> None:
        self._client: Any = client
        self._name = settings.stream
        self._stream = (
            {"StreamARN": settings.stream_arn} if settings.stream_arn else {"StreamName": settings.stream}
        )

    def put(self, records: Sequence[NewRecord]) -> list[str | None]:
        """One PutRecords: for each record the shard that took it, or None if it was refused for now.

        None means nothing more than "not known to be taken": a reply may have been lost. Raises StreamNotFound,
        StreamKeyUnavailable, StreamAccessDenied, StreamUnavailable (no reply at all).
        """
        entries = [entry_of(record) for record in records]
        with named_stream_errors(self._name):
            try:
                reply = self._client.put_records(**self._stream, Records=entries)
            except ClientError as error:
                if not is_transient(error):
                    raise
                return [None] * len(entries)
        return [None if item.get("ErrorCode") else item["ShardId"] for item in reply["Records"]]


def entry_of(record: NewRecord) -> dict[str, Any]:
    """As PutRecord and PutRecords have it."""
    entry: dict[str, Any] = {"Data": record.data, "PartitionKey": record.partition_key}
    return (
        entry if record.explicit_hash_key is None else entry | {"ExplicitHashKey": record.explicit_hash_key}
    )
