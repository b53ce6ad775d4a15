"""PutRecords over boto3. Returns for each record where it is, or why it was refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import botocore
from botocore.exceptions import ClientError, ParamValidationError
from msgspec import Struct, convert
from msgspec.json import Decoder

from sublet.aws.faults import CONNECTION_FAILED, code_of, is_transient
from sublet.aws.kinesis.errors import BAD_ARGUMENT, named_stream_errors
from sublet.aws.kinesis.raw_json import RAW, keep_raw_json
from sublet.aws.kinesis.repeated_call import RepeatedCall, error_of
from sublet.aws.kinesis.shapes import stream_info
from sublet.errors import RecordRefused, StreamError
from sublet.protocol.records import NewRecord, PutRefused
from sublet.protocol.stream_info import MAX_RECORD_KIB, PutRecord, why_too_large
from sublet.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

NO_ANSWER = "NoAnswer"
"""Our own code for a call whose answer did not arrive: its records may be in the stream."""


class _PutResult(Struct, rename="pascal"):
    shard_id: str | None = None
    sequence_number: str | None = None
    error_code: str | None = None
    error_message: str | None = None


class _PutRecordsReply(Struct, rename="pascal"):
    records: list[_PutResult]


_decode = Decoder(_PutRecordsReply).decode


class KinesisWriter:
    """The RecordWriter port. Thread-safe. `client` must not be shared: botocore does not parse its PutRecords replies
    (see raw_json), and it must not retry by itself, which would take the order from the records."""

    def __init__(self, client: KinesisClient, settings: Settings) -> None:
        self._client: Any = client
        self._name = settings.stream
        self._stream = {"StreamARN": settings.stream_arn} if settings.stream_arn else {"StreamName": settings.stream}
        keep_raw_json(client, "DescribeStreamSummary")
        keep_raw_json(client, "PutRecords", _decode)
        self._put_again = RepeatedCall(client, "PutRecords")

    def put(self, records: Sequence[NewRecord]) -> list[PutRecord | PutRefused]:
        parameters = {**self._stream, "Records": [entry_of(record) for record in records]}
        with named_stream_errors(self._name):
            try:
                reply = self._reply(parameters)
            except ClientError as error:
                return self._refused(records, error)
            except CONNECTION_FAILED as failure:
                return [PutRefused(NO_ANSWER, f"no answer: {failure}", passes=True)] * len(records)
            except ParamValidationError as error:
                if all(record.partition_key is not None for record in records):
                    raise RecordRefused(f"botocore refuses the call: {error}") from error
                raise RecordRefused(
                    f"this botocore ({botocore.__version__}) cannot put a record without a partition key; use 1.44.5 "
                    "or later"
                ) from error
        outcomes = [_outcome(item) for item in reply.records]
        return [self._explained(record, each) for record, each in zip(records, outcomes, strict=True)]

    def _reply(self, parameters: Mapping[str, Any]) -> _PutRecordsReply:
        answer = self._put_again(parameters)
        if answer is None:
            response = self._client.put_records(**parameters)
            return response[RAW] if RAW in response else convert({"Records": response["Records"]}, _PutRecordsReply)
        if not answer.is_good:
            raise error_of(answer, "PutRecords")
        return _decode(answer.body)

    def _refused(self, records: Sequence[NewRecord], error: ClientError) -> list[PutRecord | PutRefused]:
        """The answers if the whole call was refused. Raises RecordRefused if it is not known which records are to
        blame.
        """
        code, said = code_of(error), error.response.get("Error", {}).get("Message", "")
        if code in BAD_ARGUMENT:
            reasons = self._too_large_ones(records)
            if not any(reasons):
                raise RecordRefused(f"Kinesis refuses the call ({code}: {said})") from error
            return [PutRefused(code, why or "refused with another record", passes=not why) for why in reasons]
        if not is_transient(error):
            raise error
        return [PutRefused(code, said, passes=True)] * len(records)

    def _explained(self, record: NewRecord, outcome: PutRecord | PutRefused) -> PutRecord | PutRefused:
        """Adds the reason to a record refused for good, if the stream's size limit is the cause."""
        if isinstance(outcome, PutRecord) or outcome.passes:
            return outcome
        (why,) = self._too_large_ones([record])
        return outcome if why is None else outcome._replace(reason=why)

    def _too_large_ones(self, records: Sequence[NewRecord]) -> list[str | None]:
        """Why each record is too large; None for a record that is not. Called only after a refusal. If the role may not
        describe the stream, records above Kinesis' default size count as too large, unless all are above it.
        """
        if not any(record.size > MAX_RECORD_KIB * 1024 for record in records):
            return [None] * len(records)
        try:
            with named_stream_errors(self._name):
                info = stream_info(self._client.describe_stream_summary(**self._stream))
            return [why_too_large(record, info) for record in records]
        except StreamError:
            above = [record.size > MAX_RECORD_KIB * 1024 for record in records]
            why = "it has more than 1 MiB, which the stream may not take"
            return [why if one and not all(above) else None for one in above]


def _outcome(item: _PutResult) -> PutRecord | PutRefused:
    """An unknown code counts as transient; its reason is reported if it persists."""
    if item.error_code or item.shard_id is None:
        code = item.error_code or NO_ANSWER
        return PutRefused(code, item.error_message or "no reason given", code not in BAD_ARGUMENT)
    return PutRecord(item.shard_id, item.sequence_number or "")


def entry_of(record: NewRecord) -> dict[str, Any]:
    """An entry of PutRecord and PutRecords."""
    key = {} if record.partition_key is None else {"PartitionKey": record.partition_key}
    explicit = {} if record.explicit_hash_key is None else {"ExplicitHashKey": record.explicit_hash_key}
    return {"Data": record.data, **key, **explicit}
