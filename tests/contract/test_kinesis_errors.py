"""The Kinesis adapter's answer to each error and oddity of the service, with a scripted service on loopback."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sublet.aws.clients import kinesis_client, kinesis_poll_client
from sublet.aws.kinesis.stream import KinesisStream
from sublet.decisions.session.read_position import IteratorType, ReadPosition, after
from sublet.errors import (
    CheckpointNotInStream,
    ShardNotFound,
    StreamAccessDenied,
    StreamError,
    StreamKeyUnavailable,
    StreamNotFound,
    StreamUnavailable,
)
from sublet.ports import PollRefusal, Unanswered
from sublet.protocol.records import GetRecordsReply, Page, StreamRecord
from sublet.protocol.shard import FULL_RANGE, ChildShard
from sublet.settings import Settings, StartKind, StartPosition

from tests.contract.scripted_service import HANG_UP, Json, Reply, ScriptedService, error

ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/orders"
HORIZON = ReadPosition(IteratorType.TRIM_HORIZON)
PARENT, CHILD = "shardId-000000000000", "shardId-000000000001"
RANGE = {"StartingHashKey": "0", "EndingHashKey": str(FULL_RANGE.ending)}
EMPTY: Json = {"Records": [], "NextShardIterator": "next", "MillisBehindLatest": 0}
END_WITHOUT_CHILDREN: Json = {"Records": [], "MillisBehindLatest": 0}


def listed(shard_id: str, *, parent: str | None = None, closed: bool = False) -> Json:
    numbers = {"StartingSequenceNumber": "1"} | ({"EndingSequenceNumber": "0"} if closed else {})
    shard: Json = {"ShardId": shard_id, "HashKeyRange": RANGE, "SequenceNumberRange": numbers}
    return shard | ({"ParentShardId": parent} if parent else {})


@pytest.fixture
def service(service: ScriptedService) -> ScriptedService:
    service.will("ListShards", {"Shards": []})
    service.will("GetShardIterator", {"ShardIterator": "first"})
    return service


@pytest.fixture
def stream(service: ScriptedService) -> KinesisStream:
    return KinesisStream(
        kinesis_client(), kinesis_poll_client(), Settings(application="app", stream="orders", stream_arn=ARN)
    )


CALLS: dict[str, tuple[str, Callable[[KinesisStream], object]]] = {
    "list": ("ListShards", lambda stream: stream.list_shards()),
    "has": ("GetShardIterator", lambda stream: stream.has_shard(PARENT)),
    "open": ("GetShardIterator", lambda stream: stream.open(PARENT, HORIZON)),
    "poll": ("GetRecords", lambda stream: stream.poll(f"{PARENT} first", 10)),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("AccessDeniedException", StreamAccessDenied),
        ("KMSAccessDeniedException", StreamKeyUnavailable),
        ("KMSDisabledException", StreamKeyUnavailable),
        ("KMSInvalidStateException", StreamKeyUnavailable),
        ("KMSNotFoundException", StreamKeyUnavailable),
        ("KMSOptInRequired", StreamKeyUnavailable),
        ("ResourceInUseException", StreamNotFound),
    ],
)
def test_errors_that_mean_the_same_everywhere(
    service: ScriptedService, stream: KinesisStream, call: str, code: str, named: type[StreamError]
) -> None:
    operation, do = CALLS[call]
    service.will(operation, error(code))
    with pytest.raises(named, match=r"orders.*said so"):
        do(stream)


@pytest.mark.parametrize(
    ("reply", "refusal"),
    [
        (error("ProvisionedThroughputExceededException"), PollRefusal.THROTTLED),
        (error("KMSThrottlingException"), PollRefusal.THROTTLED),
        (error("LimitExceededException"), PollRefusal.THROTTLED),
        (error("InternalFailure", status=500), Unanswered),
        (error("ServiceUnavailable", status=503), Unanswered),
        (HANG_UP, Unanswered),
        (error("ExpiredIteratorException"), PollRefusal.ITERATOR_EXPIRED),
        (error("InvalidArgumentException", "Invalid ShardIterator."), PollRefusal.ITERATOR_EXPIRED),
    ],
)
def test_a_poll_that_will_pass_is_refused_at_once(
    service: ScriptedService, stream: KinesisStream, reply: Reply, refusal: PollRefusal | type[Unanswered]
) -> None:
    """One attempt: the shard's limit is shared, and the caller polls again anyway."""
    service.will("GetRecords", reply)
    came = stream.poll(f"{PARENT} first", 10)
    assert came is refusal or type(came) is refusal
    assert refusal is not Unanswered or (isinstance(came, Unanswered) and came.problem)
    assert len(service.asked("GetRecords")) == 1


def test_an_unreachable_endpoint_refuses_polls_and_fails_the_rest_by_name(
    monkeypatch: pytest.MonkeyPatch, closed_port: int
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", f"http://127.0.0.1:{closed_port}")
    client = kinesis_poll_client()  # retries are not tested here
    stream = KinesisStream(client, client, Settings(application="app", stream="orders"))
    assert isinstance(stream.poll(f"{PARENT} first", 10), Unanswered)
    with pytest.raises(StreamUnavailable, match="no reply about stream orders"):
        stream.list_shards()


def test_throttling_that_outlasts_the_retries_is_named(service: ScriptedService) -> None:
    client = kinesis_poll_client()
    stream = KinesisStream(client, client, Settings(application="app", stream="orders"))
    service.will("GetShardIterator", error("ProvisionedThroughputExceededException"))
    with pytest.raises(StreamUnavailable, match="keeps refusing"):
        stream.open(PARENT, HORIZON)


def test_a_throttled_open_is_retried(service: ScriptedService, stream: KinesisStream) -> None:
    service.will(
        "GetShardIterator",
        error("ProvisionedThroughputExceededException"),
        HANG_UP,
        {"ShardIterator": "first"},
    )
    assert stream.open(PARENT, HORIZON) == f"{PARENT} first"


@pytest.mark.parametrize("call", ["open", "poll"])
def test_not_found_means_the_shard_while_the_stream_exists(
    service: ScriptedService, stream: KinesisStream, call: str
) -> None:
    operation, do = CALLS[call]
    service.will(operation, error("ResourceNotFoundException"))
    with pytest.raises(ShardNotFound, match=PARENT):
        do(stream)


def test_a_shard_that_there_is_not_may_be_a_wrong_name(service: ScriptedService, stream: KinesisStream) -> None:
    service.will("GetShardIterator", error("ResourceNotFoundException"))
    service.will("ListShards", {"Shards": [listed(CHILD)]})
    for position in (HORIZON, after("49123")):
        with pytest.raises(ShardNotFound, match=f"no shard {PARENT}; check its name. If it existed, its records"):
            stream.open(PARENT, position)


def test_a_position_that_a_listed_shard_does_not_know_is_not_past_retention(
    service: ScriptedService, stream: KinesisStream
) -> None:
    """The error's class stays: a listing may lag behind, and still show a shard that is past retention."""
    service.will("GetShardIterator", error("ResourceNotFoundException"))
    service.will("ListShards", {"Shards": [listed(CHILD), listed(PARENT)]})
    with pytest.raises(ShardNotFound, match=f"does not know 49123 in shard {PARENT} .*another stream's") as raised:
        stream.open(PARENT, after("49123"))
    assert "past retention" not in str(raised.value)


@pytest.mark.parametrize("call", CALLS)
def test_not_found_means_the_stream_when_its_listing_fails_too(
    service: ScriptedService, stream: KinesisStream, call: str
) -> None:
    operation, do = CALLS[call]
    service.will(operation, error("ResourceNotFoundException"))
    service.will("ListShards", error("ResourceNotFoundException"))
    with pytest.raises(StreamNotFound, match="no stream orders"):
        do(stream)


def test_a_shard_is_not_called_gone_when_the_stream_cannot_be_asked(
    service: ScriptedService, stream: KinesisStream
) -> None:
    """`has_shard` False deletes a lease."""
    service.will("GetShardIterator", error("ResourceNotFoundException"))
    service.will("ListShards", error("AccessDeniedException"))
    with pytest.raises(StreamAccessDenied):
        stream.has_shard(PARENT)


@pytest.mark.parametrize("code", ["InvalidArgumentException", "ValidationException"])
def test_a_sequence_number_of_another_stream(service: ScriptedService, stream: KinesisStream, code: str) -> None:
    service.will("GetShardIterator", error(code, "did not come from this stream"))
    with pytest.raises(CheckpointNotInStream, match=rf"{PARENT}.*49123.*did not come from this stream"):
        stream.open(PARENT, after("49123"))


def test_a_moment_ahead_of_the_services_clock_is_its_latest(service: ScriptedService, stream: KinesisStream) -> None:
    refused = error("InvalidArgumentException", "timestampInMillis cannot be greater than currentTimestampInMillis")
    service.will("GetShardIterator", refused, {"ShardIterator": "latest"})
    at = datetime(2026, 1, 31, 10, 0, tzinfo=timezone(timedelta(hours=2)))
    assert stream.open(PARENT, ReadPosition(IteratorType.AT_TIMESTAMP, at=at)) == f"{PARENT} latest"
    first, second = service.asked("GetShardIterator")
    assert first["Timestamp"] == datetime(2026, 1, 31, 8, 0, tzinfo=UTC).timestamp()
    assert second["ShardIteratorType"] == "LATEST"
    assert "Timestamp" not in second


def test_the_arn_goes_with_every_call_that_takes_it(service: ScriptedService, stream: KinesisStream) -> None:
    """Policies scoped to one stream do not match an iterator alone."""
    service.will("GetRecords", EMPTY)
    stream.list_shards()
    stream.poll(stream.open(PARENT, HORIZON), 10)
    assert [request["StreamARN"] for _, request in service.requests] == [ARN] * 3
    assert not any("StreamName" in request for _, request in service.requests)


def test_the_name_goes_where_there_is_no_arn(service: ScriptedService) -> None:
    stream = KinesisStream(kinesis_client(), kinesis_poll_client(), Settings(application="app", stream="orders"))
    service.will("GetRecords", EMPTY)
    stream.poll(stream.open(PARENT, HORIZON), 10)
    assert service.asked("GetShardIterator")[0]["StreamName"] == "orders"
    assert service.asked("GetRecords") == [{"ShardIterator": "first", "Limit": 10}]


def test_a_listing_goes_on_by_its_token_alone(service: ScriptedService, stream: KinesisStream) -> None:
    service.will("ListShards", {"Shards": [listed(PARENT)], "NextToken": "more"}, {"Shards": [listed(CHILD)]})
    assert [shard.shard_id for shard in stream.list_shards()] == [PARENT, CHILD]
    assert service.asked("ListShards")[1] == {"NextToken": "more"}


def test_a_listing_whose_token_expired_starts_again(service: ScriptedService, stream: KinesisStream) -> None:
    page = {"Shards": [listed(PARENT)], "NextToken": "more"}
    service.will("ListShards", page, error("ExpiredNextTokenException"), page, {"Shards": [listed(CHILD)]})
    assert [shard.shard_id for shard in stream.list_shards()] == [PARENT, CHILD]


@pytest.mark.parametrize(
    ("at", "asked"),
    [
        (StartPosition(StartKind.TRIM_HORIZON), {"Type": "AT_TRIM_HORIZON"}),
        (StartPosition(StartKind.LATEST), {"Type": "AT_LATEST"}),
        (
            StartPosition(StartKind.AT_TIMESTAMP, datetime.fromtimestamp(1_700_000_000, UTC)),
            {"Type": "AT_TIMESTAMP", "Timestamp": 1_700_000_000},
        ),
    ],
)
def test_a_listing_at_a_position(
    service: ScriptedService, stream: KinesisStream, at: StartPosition, asked: Json
) -> None:
    stream.list_shards(at)
    assert service.asked("ListShards")[0]["ShardFilter"] == asked


def test_an_emulators_ending_sequence_number_closes_whatever_it_says(
    service: ScriptedService, stream: KinesisStream
) -> None:
    service.will("ListShards", {"Shards": [listed(PARENT, closed=True), listed(CHILD, parent=PARENT)]})
    assert [shard.is_open for shard in stream.list_shards()] == [False, True]


def test_records_and_the_end_in_one_page(service: ScriptedService, stream: KinesisStream) -> None:
    record = {
        "SequenceNumber": "5",
        "Data": "AAH/",
        "PartitionKey": "k",
        "ApproximateArrivalTimestamp": 1.7e9 + 0.123,
    }
    child = {"ShardId": CHILD, "ParentShards": [PARENT], "HashKeyRange": RANGE}
    service.will("GetRecords", {"Records": [record], "MillisBehindLatest": 7, "ChildShards": [child]})
    arrived = datetime.fromtimestamp(1_700_000_000, UTC) + timedelta(milliseconds=123)
    assert stream.poll(f"{PARENT} first", 10) == GetRecordsReply(
        Page(
            (StreamRecord("5", b"\x00\x01\xff", "k", arrived),),
            data_bytes=3,
            millis_behind_latest=7,
            is_shard_end=True,
            child_shards=(ChildShard(CHILD, frozenset({PARENT}), FULL_RANGE),),
        ),
        None,
    )


@pytest.mark.parametrize("children", [[], [{"ShardId": CHILD, "ParentShards": [], "HashKeyRange": RANGE}]])
def test_an_end_without_believable_children_asks_the_listing(
    service: ScriptedService, stream: KinesisStream, children: list[Json]
) -> None:
    service.will("GetRecords", END_WITHOUT_CHILDREN | {"ChildShards": children})
    service.will("ListShards", {"Shards": [listed(PARENT, closed=True), listed(CHILD, parent=PARENT)]})
    reply = stream.poll(f"{PARENT} first", 10)
    assert isinstance(reply, GetRecordsReply)
    assert reply.page.child_shards == (ChildShard(CHILD, frozenset({PARENT}), FULL_RANGE),)


def test_an_end_without_children_is_not_believed_while_the_shard_is_listed(
    service: ScriptedService, stream: KinesisStream
) -> None:
    service.will("GetRecords", END_WITHOUT_CHILDREN)
    service.will("ListShards", {"Shards": [listed(PARENT, closed=True)]})
    assert stream.poll(f"{PARENT} first", 10) is PollRefusal.THROTTLED


def test_a_shard_that_is_no_longer_listed_ends_without_children(
    service: ScriptedService, stream: KinesisStream
) -> None:
    service.will("GetRecords", END_WITHOUT_CHILDREN)
    assert stream.poll(f"{PARENT} first", 10) == GetRecordsReply(Page((), 0, 0, is_shard_end=True), None)


def test_children_named_beside_a_next_iterator_do_not_end_the_shard(
    service: ScriptedService, stream: KinesisStream
) -> None:
    child = {"ShardId": CHILD, "ParentShards": [PARENT], "HashKeyRange": RANGE}
    service.will("GetRecords", EMPTY | {"ChildShards": [child]})
    reply = stream.poll(f"{PARENT} first", 10)
    assert isinstance(reply, GetRecordsReply)
    assert reply.next_iterator == f"{PARENT} next"
    assert not reply.page.is_shard_end
