"""PutRecords over boto3: for each record the shard that took it, or why it was refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import botocore
from botocore.exceptions import ClientError, ParamValidationError

from sublet.aws.faults import code_of, is_transient
from sublet.aws.kinesis_errors import BAD_ARGUMENT, named_stream_errors
from sublet.aws.kinesis_shapes import stream_info
from sublet.aws.raw_json import keep_raw_json
from sublet.errors import RecordRefused, StreamError
from sublet.protocol.records import NewRecord, PutRefused
from sublet.protocol.stream_info import why_too_large
from sublet.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


class KinesisWriter:
    """Puts records into one stream. Thread-safe."""

    def __init__(self, client: KinesisClient, settings: Settings) -> None:
        self._client: Any = client
        self._name = settings.stream
        self._stream = (
            {"StreamARN": settings.stream_arn} if settings.stream_arn else {"StreamName": settings.stream}
        )
        keep_raw_json(client, "DescribeStreamSummary")

    def put(self, records: Sequence[NewRecord]) -> list[str | PutRefused]:
        """Sends one PutRecords. Returns for each record the shard that took it, or why it was refused.

        PutRefused only means "not known to be stored": a reply may have been lost. Raises StreamNotFound,
        StreamKeyUnavailable, StreamAccessDenied, StreamUnavailable (no reply at all), and RecordRefused for a call
        that Kinesis will never accept.
        """
        entries = [entry_of(record) for record in records]
        with named_stream_errors(self._name):
            try:
                reply = self._client.put_records(**self._stream, Records=entries)
            except ClientError as error:
                code, said = code_of(error), error.response.get("Error", {}).get("Message", "")
                if code in BAD_ARGUMENT:
                    why = self._why_too_large(records)
                    raise RecordRefused(
                        why or f"Kinesis refuses a call of {len(entries)} records ({code}: {said})"
                    ) from error
                if not is_transient(error):
                    raise
                return [PutRefused(code, said, passes=True)] * len(entries)
            except ParamValidationError as error:
                if all(record.partition_key is not None for record in records):
                    raise
                raise RecordRefused(
                    f"this botocore ({botocore.__version__}) cannot put a record without a partition key; use 1.44.5 or later"
                ) from error
        outcomes = [_outcome(item) for item in reply["Records"]]
        return [self._explained(record, each) for record, each in zip(records, outcomes, strict=True)]

    def _explained(self, record: NewRecord, outcome: str | PutRefused) -> str | PutRefused:
        """Adds the reason to a record refused for good, if the stream's size limit is the cause."""
        if isinstance(outcome, str) or outcome.passes or (why := self._why_too_large([record])) is None:
            return outcome
        return outcome._replace(reason=why)

    def _why_too_large(self, records: Sequence[NewRecord]) -> str | None:
        """Why the first record that is too large is too large. Called only after a refusal; None if the role may not
        describe the stream."""
        try:
            with named_stream_errors(self._name):
                info = stream_info(self._client.describe_stream_summary(**self._stream))
        except StreamError:
            return None
        return next((why for record in records if (why := why_too_large(record, info))), None)


def _outcome(item: dict[str, Any]) -> str | PutRefused:
    """An unknown code counts as transient; its reason is reported if it persists."""
    code = item.get("ErrorCode")
    if not code:
        return str(item["ShardId"])
    return PutRefused(code, item.get("ErrorMessage") or "no reason given", code not in BAD_ARGUMENT)


def entry_of(record: NewRecord) -> dict[str, Any]:
    """An entry of PutRecord and PutRecords."""
    key = {} if record.partition_key is None else {"PartitionKey": record.partition_key}
    explicit = {} if record.explicit_hash_key is None else {"ExplicitHashKey": record.explicit_hash_key}
    return {"Data": record.data, **key, **explicit}
