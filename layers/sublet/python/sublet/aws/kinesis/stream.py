"""The Stream port over boto3.

Our iterators are Kinesis' iterators with the shard's id in front, so that a poll can name the shard in errors and
look up its children.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sublet.aws.faults import CONNECTION_FAILED, code_of
from sublet.aws.kinesis.errors import (
    BAD_ARGUMENT,
    EXPIRED_LISTING,
    named_stream_errors,
    poll_refusal,
    shard_not_found,
    stream_not_found,
)
from sublet.aws.kinesis.raw_json import RAW, keep_raw_json, service_date
from sublet.aws.kinesis.repeated_call import RepeatedCall, error_of
from sublet.aws.kinesis.shapes import (
    child_shards,
    decode_iterator,
    decode_records_reply,
    described,
    records_reply,
    shard_of,
    with_arrivals,
)
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import CheckpointNotInStream, ShardNotFound, StreamError
from sublet.ports import PollRefusal, Refusal, ShardReader, Unanswered
from sublet.protocol.records import GetRecordsReply, Page
from sublet.protocol.shard import ChildShard, Shard, child_of
from sublet.protocol.stream_info import StreamDescription
from sublet.reading.polling import PollingReader
from sublet.settings import Settings, StartKind, StartPosition

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

_SHARD_FILTERS = {
    StartKind.TRIM_HORIZON: "AT_TRIM_HORIZON",
    StartKind.LATEST: "AT_LATEST",
    StartKind.AT_TIMESTAMP: "AT_TIMESTAMP",
}


UNSTATED_LAG = 1
"""A page without MillisBehindLatest counts as this many milliseconds behind, since it may not be at the tip."""


class KinesisStream:
    """The Stream port. Thread-safe, as boto3's clients are.

    `poll_client` must not be shared: botocore does not parse its GetRecords replies (see raw_json).
    """

    def __init__(self, client: KinesisClient, poll_client: KinesisClient, settings: Settings) -> None:
        # boto3's types declare each call's parameters as keywords; ours depend on what the settings name.
        self._client: Any = client
        self._poll_client: Any = poll_client
        self._name = settings.stream
        self._arn = {"StreamARN": settings.stream_arn} if settings.stream_arn else {}
        self._stream = self._arn or {"StreamName": settings.stream}
        keep_raw_json(poll_client, "GetRecords", decode_records_reply)
        self._poll_again = RepeatedCall(poll_client, "GetRecords", self._arn)
        self._open_again = RepeatedCall(client, "GetShardIterator", self._stream)
        keep_raw_json(client, "DescribeStreamSummary")

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        arguments = dict(self._stream) | ({"ShardFilter": _shard_filter(at)} if at else {})
        with self._named_errors():
            while True:
                try:
                    return tuple(shard_of(item) for page in self._listing(arguments) for item in page["Shards"])
                except ClientError as error:
                    if code_of(error) not in EXPIRED_LISTING:
                        raise

    def describe(self) -> StreamDescription:
        with self._named_errors():
            reply = self._client.describe_stream_summary(**self._stream)
        return described(reply, self._date(reply))

    def has_shard(self, shard_id: str) -> bool:
        try:
            self.open(shard_id, ReadPosition(IteratorType.TRIM_HORIZON))
        except ShardNotFound:
            return False
        return True

    def service_time(self) -> datetime:
        with self._named_errors():
            reply = self._client.list_shards(**self._stream, MaxResults=1)
        return self._date(reply)

    def _date(self, reply: Mapping[str, Any]) -> datetime:
        if (date := service_date(reply)) is None:
            raise StreamError(
                f"Kinesis' replies about stream {self._name} have no Date header; a proxy in between must keep it"
            )
        return date

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        """A time that the service's clock has not reached (ours may be ahead) is opened as LATEST."""
        with self._named_errors(shard_id, position.sequence_number):
            if position.type is not IteratorType.AT_TIMESTAMP:
                return self._at_number(shard_id, position)
            if position.sequence_number is not None:
                self._at_number(shard_id, ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, position.sequence_number))
            try:
                return self._iterator(shard_id, ReadPosition(position.type, at=position.at))
            except ClientError as error:
                if code_of(error) not in BAD_ARGUMENT:
                    raise
            return self._iterator(shard_id, ReadPosition(IteratorType.LATEST))

    def _at_number(self, shard_id: str, position: ReadPosition) -> str:
        try:
            return self._iterator(shard_id, position)
        except ClientError as error:
            if code_of(error) not in BAD_ARGUMENT or position.sequence_number is None:
                raise
            raise CheckpointNotInStream(
                f"shard {shard_id} of stream {self._name} does not accept the sequence number "
                f"{position.sequence_number}: {error}; if the stream was created again, start a new application"
            ) from error

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | Refusal:
        shard_id, _, token = iterator.partition(" ")
        with self._named_errors(shard_id):
            try:
                response = self._records({"ShardIterator": token, "Limit": limit, **self._arn})
            except ClientError as error:
                if refusal := poll_refusal(error):
                    return refusal
                raise
            except CONNECTION_FAILED as failure:
                return Unanswered(str(failure))
        return self._page(shard_id, response)

    def _records(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """GetRecords' reply as raw_json returns it. A reply that we cannot decode is requested again through
        botocore, which then says what is wrong."""
        answer = self._poll_again(parameters)
        if answer is not None and not answer.is_good:
            raise error_of(answer, "GetRecords")
        if answer is not None:
            with suppress(ValueError):
                reply = decode_records_reply(answer.body)
                return {RAW: reply, "ResponseMetadata": {"HTTPHeaders": answer.headers}}
        response: dict[str, Any] = self._poll_client.get_records(**parameters)
        return response

    def _page(self, shard_id: str, response: dict[str, Any]) -> GetRecordsReply | Refusal:
        """A missing next iterator means the shard's end only if its children are known, or the shard itself is gone.

        KCL does not accept an end without children either. It repeats the poll; we look in the listing first.
        """
        reply = records_reply(response)
        records = with_arrivals(reply.records, lambda: self._date(response))
        stated = reply.millis_behind_latest
        behind = UNSTATED_LAG if stated is None else stated
        if token := reply.next_shard_iterator:
            # A page with records needs no time; without its lag, we do not know how far an empty page reached.
            at = None if records or stated is None else service_date(response)
            page = Page(records, reply.data_bytes, behind, answered_at=at)
            return GetRecordsReply(page, f"{shard_id} {token}")
        children = child_shards(reply.child_shards) or self._listed_children(shard_id)
        if children is None:
            return PollRefusal.THROTTLED
        return GetRecordsReply(Page(records, reply.data_bytes, behind, True, children), None)

    def _listed_children(self, shard_id: str) -> tuple[ChildShard, ...] | None:
        """Returns None while the shard is listed but its children are not: a listing may lag behind."""
        shards = self.list_shards()
        children = tuple(child_of(shard) for shard in shards if shard_id in shard.parent_shard_ids)
        return None if not children and any(shard.shard_id == shard_id for shard in shards) else children

    def _iterator(self, shard_id: str, position: ReadPosition) -> str:
        """Older botocore truncates times to the second; at worst, some records come twice."""
        arguments: dict[str, Any] = {
            **self._stream,
            "ShardId": shard_id,
            "ShardIteratorType": position.type.value,
        }
        if position.sequence_number is not None:
            arguments["StartingSequenceNumber"] = position.sequence_number
        if position.at is not None:
            arguments["Timestamp"] = position.at.astimezone(UTC)  # botocore ignores the time zone
        token = self._repeated_iterator(arguments) or self._client.get_shard_iterator(**arguments)["ShardIterator"]
        return f"{shard_id} {token}"

    def _repeated_iterator(self, arguments: Mapping[str, Any]) -> str | None:
        """None if the call has to go through botocore, which also repeats a call that failed, and says what is
        wrong."""
        at = {"Timestamp": arguments["Timestamp"].timestamp()} if "Timestamp" in arguments else {}
        with suppress(*CONNECTION_FAILED, ValueError):
            answer = self._open_again({**arguments, **at})
            if answer is not None and answer.is_good:
                return decode_iterator(answer.body).shard_iterator
        return None

    def _listing(self, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """ListShards' pages, of up to 1,000 shards each. The token alone identifies the stream: Kinesis refuses a
        name, an ARN (aws/aws-cli#9635, awslabs/amazon-kinesis-producer#482) or a filter beside it."""
        page = self._client.list_shards(**arguments)
        yield page
        while token := page.get("NextToken"):
            page = self._client.list_shards(NextToken=token)
            yield page

    def _named_errors(self, shard_id: str | None = None, number: str | None = None) -> AbstractContextManager[None]:
        return named_stream_errors(self._name, lambda error: self._not_found(shard_id, number, error))

    def _not_found(self, shard_id: str | None, number: str | None, error: ClientError) -> StreamError:
        """Asks Kinesis whether the stream or the shard is gone, rather than guess from the message. The same code may
        mean a sequence number of another stream. But a listing may lag behind, so that case has no error class of its
        own.
        """
        if shard_id is None:
            return stream_not_found(self._name, error)
        if number is None:
            with self._named_errors():
                self._client.list_shards(**self._stream, MaxResults=1)
        elif any(shard.shard_id == shard_id for shard in self.list_shards()):
            return ShardNotFound(
                f"Kinesis does not know {number} in shard {shard_id} of stream {self._name}; it may be another stream's"
            )
        return shard_not_found(self._name, shard_id)


def _shard_filter(at: StartPosition) -> dict[str, Any]:
    moment = {"Timestamp": at.at.astimezone(UTC)} if at.at else {}
    return {"Type": _SHARD_FILTERS[at.kind], **moment}
